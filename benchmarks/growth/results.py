"""The measurements of growth on disk: rows are appended as they come, so that a run that was interrupted goes on where it stopped. The
document is written from this file alone."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.figures.results_file import provenance

__all__ = ["COLUMNS", "GrowthFile"]

COLUMNS = (
    "axis", "size", "subscriptions", "changes", "batch_ms", "batch_std_ms", "one_ms", "one_std_ms", "build_s", "bytes", "matches",
    "engines", "change_ms", "worst_change_ms", "shards", "largest", "fan_out", "events_per_second", "slowest_ms", "memory_gb",
    "largest_gb", "network_bytes", "request_bytes", "reply_bytes", "coordinator_ms",
)  # fmt: skip


class GrowthFile:
    """Rows with a name (`axis`) and a size. A file of another extent is replaced."""

    def __init__(self, path: Path, extent: str) -> None:
        self.path, self.notes = path, dict[str, str]()
        self.rows: list[dict[str, str]] = []
        if path.exists():
            lines = path.read_text().splitlines()
            self.notes = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))  # type: ignore[misc]
            self.rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
        if extent and self.notes.get("scale") != extent:
            self.notes, self.rows = provenance(extent), []
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", newline="") as file:
                file.writelines(f"# {name}: {text}\n" for name, text in self.notes.items())
                csv.DictWriter(file, COLUMNS, lineterminator="\n").writeheader()

    def measured(self, axis: str, size: float, measure: Callable[[], dict[str, Any]]) -> None:
        """Measures what is not there yet, and appends it."""
        if any(row["axis"] == axis and float(row["size"]) == size for row in self.rows):
            return
        found = {"axis": axis, "size": size} | measure()
        row = {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in found.items()}
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n").writerow(row)
        self.rows.append({name: str(row.get(name, "")) for name in COLUMNS})

    def of(self, axis: str) -> list[dict[str, Any]]:
        """Returns the rows of an axis by size, with numbers as numbers."""
        found = [
            {name: _number(text) for name, text in row.items() if text} for row in self.rows if row["axis"] == axis
        ]
        return sorted(found, key=lambda row: row["size"])


def _number(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() and "." not in text and "e" not in text else value
