"""Measurements on disk: one CSV per sweep, with the machine, the versions and the seed in comments above the header. Rows are appended as
they come, so a run that was interrupted goes on where it stopped."""

from __future__ import annotations

import csv
import datetime
import io
import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["ResultsFile", "append_row", "provenance"]

COLUMNS = (
    "sweep", "place", "x", "label", "series", "status", "subscriptions", "events", "mean_ms", "std_ms", "min_ms", "max_ms", "matches",
    "build_s", "build_std_s", "bytes", "checked", "false_positives", "matched", "unmatched", "found", "rate", "insert_us",
    "insert_std_us", "insert_max_us", "delete_us", "delete_std_us", "delete_max_us", "value", "each_event", "cpu_s", "wall_s", "note",
)  # fmt: skip
SEED = 1


def provenance(scale: str) -> dict[str, str]:
    """What a reader needs to judge a figure."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or "unknown",
    )
    memory = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    cores = os.cpu_count() or 1
    return {
        "scale": scale,
        "seed": str(SEED),
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "processor": f"{model}, {cores} cores",
        "memory": f"{int(memory) / 2**20:.0f} GB",
        "system": platform.platform(terse=True),
        "versions": ", ".join(
            [
                f"Python {platform.python_version()}",
                *(f"{name} {version(name)}" for name in ("ray-pubsub", "numpy", "numba")),
            ]
        ),
        "clock": "processor time of the thread, so that other work on the machine counts little; one core",
        "load when the run began": f"{load:.1f}" + (" (the machine was shared)" if load > cores / 2 else ""),
    }


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Appends one row with one write, so that several processes may append to a file."""
    text = io.StringIO()
    csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n").writerow(
        {name: _short(value) for name, value in row.items()}
    )
    with path.open("ab", buffering=0) as file:
        file.write(text.getvalue().encode())


class ResultsFile:
    """The rows of one sweep. A file of another scale is replaced."""

    def __init__(self, path: Path, scale: str) -> None:
        self.path = path
        self.notes: dict[str, str] = {}
        self.rows: list[dict[str, Any]] = []
        if path.exists():
            self.read()
        if self.notes.get("scale") != scale:
            self.notes, self.rows = provenance(scale), []
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", newline="") as file:
                file.writelines(f"# {name}: {text}\n" for name, text in self.notes.items())
                csv.DictWriter(file, COLUMNS, lineterminator="\n").writeheader()

    def done(self) -> set[tuple[int, str]]:
        """Places and series that have been measured."""
        return {(int(row["place"]), row["series"]) for row in self.rows}

    def append(self, rows: Iterable[dict[str, Any]]) -> None:
        for row in rows:
            append_row(self.path, row)
        self.read()

    def values(self, series: str, measure: str) -> tuple[list[float], list[float]]:
        """x and y of a curve, in the order of the points; points without the measure are left out."""
        found = sorted(
            (int(row["place"]), float(row["x"]), float(row[measure]))
            for row in self.rows
            if row["series"] == series and row.get(measure)
        )
        return [x for _, x, _ in found], [y for _, _, y in found]

    def series(self) -> list[str]:
        return list(dict.fromkeys(row["series"] for row in self.rows))

    def read(self) -> None:
        """Reads what the file has now; other processes append to it."""
        lines = self.path.read_text().splitlines()
        for line in lines:
            if line.startswith("# "):
                name, _, text = line[2:].partition(": ")
                self.notes[name] = text
        self.rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
