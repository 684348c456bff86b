"""One picture of everything that grows: a column per axis, a row per measure, measurements on their fits."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np

from benchmarks.figures.drawing import logarithmic, write_png
from benchmarks.growth.axes import Axis
from benchmarks.growth.document import MEASURES
from benchmarks.growth.fitting import fit_axis
from benchmarks.growth.results import GrowthFile

__all__ = ["draw"]


LONG = 100_000
"""Sizes from here on would run into one another as labels."""


def shortened(value: float, _: int = 0) -> str:
    """
    >>> shortened(300_000.0), shortened(10_000_000.0), shortened(1e9), shortened(50)
    ('300k', '10M', '1G', '50')
    """
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def draw(chosen: list[Axis], results: GrowthFile, folder: Path) -> None:
    """Writes growth.png and growth.svg."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 8, "axes.grid": True, "grid.alpha": 0.3}
    ):
        figure, grid = pyplot.subplots(
            len(MEASURES), len(chosen), figsize=(3.0 * len(chosen), 8.4), layout="constrained"
        )
        for column, axis in enumerate(chosen):
            rows = results.of(axis.name)
            sizes = [row["size"] for row in rows]
            for line, (measure, title) in enumerate(MEASURES.items()):
                place, values = grid[line][column], [row[measure] for row in rows]
                fit = fit_axis(axis.name, sizes, values)
                between = np.geomspace(sizes[0], sizes[-1], 60)
                if fit.holds:
                    place.plot(between, [fit.at(size) for size in between], color="#bbbbbb", linewidth=3)
                place.plot(sizes, values, "o-", color="#d62728", markersize=4, linewidth=1)
                shown = f"∝ n^{fit.exponent:.2f}" if fit.holds else ""
                place.set_title(shown if line else f"{textwrap.fill(axis.label, 30)}\n{shown}")
                logarithmic(place, "x")
                logarithmic(place, "y")
                if sizes[-1] >= LONG:
                    place.xaxis.set_major_formatter(shortened)
                if measure == "bytes":
                    place.yaxis.set_major_formatter(shortened)
                if column == 0:
                    place.set_ylabel(title)
        figure.text(
            0,
            -0.01,
            f"{results.notes['processor']}, {results.notes['versions']}; grey: fitted",
            fontsize=6,
            color="#666666",
            va="top",
        )
        write_png(
            figure, folder / "growth.png", "; ".join(f"{name}: {text}" for name, text in results.notes.items()), 110
        )
        figure.savefig(folder / "growth.svg", bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)
