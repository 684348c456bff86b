"""Pictures of measurements: PNG and SVG, each with its provenance in it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from benchmarks.figures.pictures import Picture
from benchmarks.figures.results_file import ResultsFile

__all__ = ["STYLES", "draw", "logarithmic", "write_png"]

# Ours are solid and coloured, the papers' versions of them dashed in the same colour, references grey or pale and dotted.
STYLES: dict[str, tuple[str, str, str]] = {
    "auto": ("#111111", "-", "o"),
    "dexin": ("#d62728", "-", "s"),
    "dexin, published": ("#d62728", "--", "s"),
    "dexin, exclusive only": ("#8c564b", "--", "^"),
    "dexin, inclusive only": ("#e377c2", "--", "v"),
    "gem": ("#2ca02c", "-", "D"),
    "gem, published ω=0": ("#2ca02c", "--", "D"),
    "gem, published ω=10": ("#5fbf5f", "--", "d"),
    "gem, published ω=20": ("#9bd69b", "--", "d"),
    "rein": ("#1f77b4", "-", "^"),
    "opindex": ("#ff7f0e", "-", "v"),
    "opindex, unoptimised": ("#ff7f0e", "--", "v"),
    "siena": ("#7f7f7f", ":", "X"),
    "tama": ("#9467bd", ":", "P"),
    "h-tree": ("#0e8fa0", ":", "<"),
    "be-tree": ("#8f9016", ":", ">"),
    "k-index": ("#9c4f3f", ":", "h"),
    "sf": ("#6b7a8f", "-.", "*"),
    "column scan": ("#4b0082", "-.", "p"),
    "a call alone": ("#bbbbbb", "-.", ""),
    "greedy": ("#d62728", "-", "o"),
    "greedy, with deciding": ("#d62728", "--", "o"),
    "optimal": ("#1f77b4", "-", "s"),
    "optimal, with deciding": ("#1f77b4", "--", "s"),
    "SI, filters": ("#d62728", "-", "o"),
    "SI, confirmed": ("#2ca02c", "-", "s"),
    "SF": ("#6b7a8f", "-.", "X"),
}


SHORT = 50.0
"""Logarithmic axes over less than this factor have ticks between powers of ten."""
PANELS = 4
"""Panels in a row."""
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "experiments",
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(picture: Picture, x: str, results: ResultsFile, folder: Path) -> None:
    """Writes NAME.png and NAME.svg."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(SETTINGS):
        clouds = picture.measure == "each_event"
        figure = _clouds(pyplot, picture, results) if clouds else _curves(pyplot, picture, x, results)
        notes = results.notes
        figure.text(
            0.0, -0.02, f"{notes['scale']} scale, seed {notes['seed']}, {notes['processor']}, {notes['versions']}", fontsize=6,
            color="#666666", va="top",
        )  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        described = "; ".join(f"{name}: {text}" for name, text in notes.items())
        write_png(figure, folder / f"{picture.name}.png", described)
        figure.savefig(
            folder / f"{picture.name}.svg", bbox_inches="tight", metadata={"Description": described, "Date": None}
        )
        pyplot.close(figure)


def _curves(pyplot: Any, picture: Picture, x: str, results: ResultsFile) -> Any:
    figure, axes = pyplot.subplots(figsize=(8.0, 4.4), layout="constrained")
    for series in picture.only or results.series():
        colour, line, marker = STYLES.get(series, ("#888888", ":", "."))
        places, values = results.values(series, picture.measure)
        if not places:
            continue
        errors = results.values(series, picture.deviation)[1] if picture.deviation else None
        _curve(axes, places, values, errors, label=series, color=colour, linestyle=line, marker=marker)
    for number, (name, value) in enumerate(sorted(picture.stated, key=lambda line: line[1])):
        # In the legend: names beside the lines would lie over one another and over the curves.
        dashes = (0, (6, 2, *(1, 2) * number))
        axes.axhline(value, color="#999999", linewidth=1.0, linestyle=dashes, label=f"stated: {name}, {value:g} (Java)")
    axes.set_title(picture.title, loc="left", fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(picture.unit)
    if "y" in picture.log:
        logarithmic(axes, "y")
    if "x" in picture.log:
        logarithmic(axes, "x")
    elif max(axes.get_xlim()) >= 10_000:
        axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9, frameon=False, handlelength=3)
    return figure


def logarithmic(axes: Any, side: str) -> None:
    """Ticks at 1, 2 and 5 if the axis is short, else at powers of ten; never labels between them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    getattr(axes, f"set_{side}scale")("log")
    axis = getattr(axes, f"{side}axis")
    low, high = getattr(axes, f"get_{side}lim")()
    short = high / low < SHORT
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_locator(NullLocator() if short else LogLocator(subs=(2.0, 5.0), numticks=20))
    axis.set_tick_params(which="minor", label1On=False)


def _clouds(pyplot: Any, picture: Picture, results: ResultsFile) -> Any:
    """One panel per system, as in the paper, because the clouds lie upon each other."""
    clouds = {series: pairs for series in picture.only or results.series() if (pairs := _pairs(results, series))}
    rows = -(-len(clouds) // PANELS)
    figure, panels = pyplot.subplots(
        rows, PANELS, figsize=(8.6, 1.9 * rows + 0.6), layout="constrained", sharex=True, squeeze=False
    )
    for panel in panels.flat[len(clouds) :]:
        panel.set_visible(False)
    for panel, (series, pairs) in zip(panels.flat, clouds.items(), strict=False):
        colour, _, marker = STYLES.get(series, ("#888888", ":", "."))
        matches, times = zip(*pairs, strict=True)
        panel.plot(matches, times, linestyle="", marker=marker, markersize=3.5, color=colour, alpha=0.7)
        panel.set_title(series, loc="left", fontsize=9)
        panel.tick_params(labelsize=7.5)
        panel.margins(x=0.06)
        panel.set_ylim(0, 1.15 * max(times))
    figure.suptitle(picture.title, x=0.01, ha="left", fontsize=11)
    figure.supxlabel("matches of the event", fontsize=9)
    figure.supylabel(picture.unit, fontsize=9)
    return figure


def _pairs(results: ResultsFile, series: str) -> list[tuple[float, float]]:
    found = [
        part.split(":")
        for row in results.rows
        if row["series"] == series and row.get("each_event")
        for part in row["each_event"].split()
    ]
    return [(float(matches), float(took)) for matches, took in found]


def write_png(figure: Any, path: Path, described: str, dpi: int = 150) -> None:
    """With 128 colours, which a chart does not exceed by much: a third of the size."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=dpi, bbox_inches="tight")
    info = PngInfo()
    info.add_itxt("Description", described)
    Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True, pnginfo=info)


def _curve(axes: Any, x: list[float], y: list[float], errors: list[float] | None, **style: Any) -> None:
    ours = style["linestyle"] == "-"
    style |= {"linewidth": 1.9 if ours else 1.4, "markersize": 4.5 if ours else 5.5}
    if not ours:  # hollow, so that what lies below is seen
        style |= {"markerfacecolor": "white", "markeredgewidth": 1.2}
    axes.plot(x, y, **style)
    if errors and len(errors) == len(y):
        # A band that reaches below zero cannot be shown on a logarithmic axis.
        low = [max(value - error, value * 0.2) for value, error in zip(y, errors, strict=True)]
        high = [value + error for value, error in zip(y, errors, strict=True)]
        axes.fill_between(x, low, high, color=style["color"], alpha=0.12 if ours else 0.05, linewidth=0)
