"""What the demo shows: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples.demo.account import Account

__all__ = ["View"]

BAR = 40
LINE_EVERY = 2.0
"""Seconds between lines where there is no terminal."""


class View:
    def __init__(self, levels: tuple[str, ...]) -> None:
        self.console = Console(highlight=False)
        self._levels = levels
        self._live: Live | None = None
        self._started = self._told = time.monotonic()

    def say(self, text: str, style: str = "") -> None:
        """A line that stays."""
        self.console.print(text, style=style, markup=False, soft_wrap=True)

    def watch(self) -> View:
        """Within: a live table, if somebody looks on."""
        self._started = self._told = time.monotonic()
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=8, transient=True)
        return self

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
            self._live = None

    def show(self, account: Account, total: int) -> None:
        now = time.monotonic()
        if self._live is not None:
            self._live.update(self._table(account, total, now))
        elif now - self._told >= LINE_EVERY:
            self._told = now
            self.say(f"  {self._counts(account, total, now)}")

    def _counts(self, account: Account, total: int, now: float) -> str:
        rate = account.published / max(1e-9, now - self._started)
        return (
            f"{account.published:,} of {total:,} products published ({rate:,.0f}/s), {account.matched:,} matches, "
            f"{account.polled:,} polled"
        )

    def _table(self, account: Account, total: int, now: float) -> Any:
        table = Table(box=None, show_header=False, padding=(0, 1))
        most = max([*account.by_priority.values(), 1])
        for level in reversed(self._levels):
            count = account.by_priority[level]
            table.add_row(level, Text("█" * round(BAR * count / most), style="green"), f"{count:,}")
        return Group(Text(self._counts(account, total, now)), table)
