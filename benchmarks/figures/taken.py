"""What measuring has taken: every point notes its seconds, so that a run that was interrupted counts as one that was not."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.figures.results_file import ResultsFile

__all__ = ["taken"]


def taken(files: Iterable[ResultsFile], processes: int = 2) -> str:
    """Returns a sentence with the points and the seconds of these measurements."""
    rows = [row for file in files for row in file.rows if row.get("cpu_s")]
    points = len({(row["sweep"], row["place"]) for row in rows})
    used, wall = (sum(float(row[name]) for row in rows) for name in ("cpu_s", "wall_s"))
    elapsed = f"{wall / processes:,.0f} s elapsed on this machine"
    if processes == 1:
        return f"{points:,} points, {used:,.0f} s of processor time, {elapsed}"
    return (
        f"{points:,} points, {used:,.0f} s of processor time: {used / processes:,.0f} s on {processes} cores that are free, "
        f"{elapsed} with {processes} processes"
    )
