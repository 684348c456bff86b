"""What measuring has taken: every point notes its seconds, so that a run that was interrupted counts as one that was not."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.figures.results_file import ResultsFile

__all__ = ["PROCESSES", "taken"]

PROCESSES = 2


def taken(files: Iterable[ResultsFile]) -> str:
    """Returns a sentence with the points and the seconds of these measurements."""
    rows = [row for file in files for row in file.rows if row.get("cpu_s")]
    points = len({(row["sweep"], row["place"]) for row in rows})
    used, wall = (sum(float(row[name]) for row in rows) for name in ("cpu_s", "wall_s"))
    return (
        f"{points:,} points, {used:,.0f} s of processor time: {used / PROCESSES:,.0f} s on {PROCESSES} cores that are free, "
        f"{wall / PROCESSES:,.0f} s elapsed on this machine with {PROCESSES} processes"
    )
