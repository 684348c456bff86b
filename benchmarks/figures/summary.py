"""All figures in one table of numbers: for every curve its first and its last value, and how it grows between them."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.figures.pictures import PICTURES
from benchmarks.figures.results_file import ResultsFile
from benchmarks.figures.taken import taken

__all__ = ["write_summary"]


def write_summary(files: dict[str, ResultsFile], folder: Path) -> None:
    """Writes summary.md, for the figures whose sweeps were measured."""
    notes = next(iter(files.values())).notes
    lines = ["# All curves in numbers", "", "First value → last value (as a power of x).", ""]
    lines += [*(f"- {name}: {text}" for name, text in notes.items())]
    lines += [f"- measured: {taken(files.values())}", ""]
    for picture in PICTURES.values():
        if picture.sweep not in files or picture.measure == "each_event":
            continue
        results = files[picture.sweep]
        curves = [(series, *results.values(series, picture.measure)) for series in results.series()]
        shown = sorted((values[-1], series, places, values) for series, places, values in curves if values)
        lines += [f"## {picture.title} ({picture.unit})", ""]
        lines += [
            f"- {series}: {values[0]:.3g} → {last:.3g}{_power(places, values)}"
            for last, series, places, values in shown
        ]
        refused = [row["series"] for row in results.rows if row["status"] == "too large"]
        if refused:
            lines.append(f"- too large at some points: {', '.join(dict.fromkeys(refused))}")
        lines.append("")
    (folder / "summary.md").write_text("\n".join(lines))


def _power(places: list[float], values: list[float]) -> str:
    if len(places) < 2 or min(places) <= 0 or min(values) <= 0 or places[0] == places[-1]:
        return ""
    return f" ({math.log(values[-1] / values[0]) / math.log(places[-1] / places[0]):+.2f})"
