"""What the benchmark prints: a table per group, each line a figure beside what it must and should be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rich.console import Console
from rich.status import Status
from rich.table import Table

__all__ = ["Line", "Report", "best_seconds"]


class Line(NamedTuple):
    what: str
    figure: float
    unit: str
    must: float | None
    aim: float | None
    more_is_better: bool
    note: str

    @property
    def verdict(self) -> str:
        if self.must is None:
            return ""
        if self.aim is not None and self._reaches(self.aim):
            return "[green]aim"
        if self._reaches(self.must):
            return "[green]must"
        ratio = (self.must, self.figure) if self.more_is_better else (self.figure, self.must)
        return f"[red]short by {ratio[0] / ratio[1]:.1f}" if ratio[1] else "[red]short"

    def _reaches(self, target: float) -> bool:
        return self.figure >= target if self.more_is_better else self.figure <= target


class Report:
    """Collects lines; while a step runs, a status line says which."""

    def __init__(self) -> None:
        self.console = Console(width=150)
        self.lines: list[Line] = []
        self._status: Status | None = None
        self._group: list[Line] = []

    @contextmanager
    def group(self, name: str, what: str) -> Iterator[None]:
        self._group = []
        start = time.perf_counter()
        with self.console.status(f"{name}: {what}") as self._status:
            yield
        if self._group:
            self._print(f"{name}: {what} ({time.perf_counter() - start:.0f} s)")
        self.lines += self._group

    def step(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)

    def line(
        self, what: str, figure: float, unit: str, *, must: float | None = None, aim: float | None = None, more: bool = True,
        note: str = "",
    ) -> None:  # fmt: skip
        """`more`: whether a larger figure is better."""
        self._group.append(Line(what, figure, unit, must, aim, more, note))

    def table(self, table: Table) -> None:
        self.console.print(table)

    def summary(self) -> None:
        judged = [line for line in self.lines if line.must is not None]
        short = [line.what for line in judged if "short" in line.verdict]
        self.console.print(
            f"{len(judged) - len(short)} of {len(judged)} figures are what they must be; results compared."
        )
        if short:
            self.console.print("short: " + "; ".join(short))

    def _print(self, title: str) -> None:
        table = Table(title=title, title_justify="left")
        for column in ("what", "measured", "must", "aim", "", "beside it"):
            table.add_column(column, justify="right" if column in ("measured", "must", "aim") else "left")
        for line in self._group:
            sign = "≥ " if line.more_is_better else "≤ "
            targets = ["" if target is None else sign + _number(target) for target in (line.must, line.aim)]
            table.add_row(line.what, f"{_number(line.figure)} {line.unit}", *targets, line.verdict, line.note)
        self.console.print(table)


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def best_seconds(work: Callable[[], object], rounds: int) -> float:
    """Processor seconds of the fastest run, after one that compiles: what else runs on the machine only ever adds."""
    work()
    times = []
    for _ in range(rounds):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return max(1e-9, min(times))
