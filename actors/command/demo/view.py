"""The output of the demo: one live picture on a terminal, plain lines elsewhere. Both fit 80 columns."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from actors.command.demo.account import Account

__all__ = ["View"]

BAR = 30
MOST_NAMED = 3
"""With more shards than these, the living ones are counted and not named."""
LINE_EVERY = 2.0
"""The seconds between lines where there is no terminal."""


class View:
    """The demo's output. Finished steps stay above; the picture below them changes while products are published."""

    def __init__(self, levels: tuple[str, ...], console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._levels = levels
        self._live: Live | None = None
        self._shown = time.monotonic()
        self._processes: dict[str, bool] = {}
        self._event = Text()

    def say(self, text: str, style: str = "") -> None:
        """Prints lines that stay."""
        self.console.print(text, style=style, markup=False)

    def step(self, text: str) -> Any:
        """Shows a spinner beside the current step while the block runs; on a terminal it disappears at the end."""
        return self._drawn(Spinner("dots", text), True) if self.console.is_terminal else _Said(self, f"{text} …")

    def done(self, text: str) -> None:
        self.console.print(Text.assemble(("✓ ", "green"), text))

    def processes(self, alive: dict[str, bool]) -> None:
        """Sets the server's processes, and whether each is alive."""
        self._processes = alive

    def event(self, text: str, style: str) -> None:
        """Shows a notable event."""
        self._event = Text(text, style=style)
        if self._live is None:
            self.say(text, style=style)

    def watch(self) -> View:
        """Shows the live picture while the block runs, if the output is a terminal."""
        self._shown = time.monotonic()
        if self.console.is_terminal:
            self._live = self._drawn(None, False)
        return self

    def _drawn(self, what: Any, transient: bool) -> Live:
        """Draws at the bottom of the terminal. What others write to stdout and stderr meanwhile goes where the demo has sent it, and not to
        the console, as rich would do: it may be Ray's page about the worker that was killed."""
        return Live(
            what, console=self.console, refresh_per_second=10, transient=transient, redirect_stdout=False, redirect_stderr=False
        )  # fmt: skip

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
            self._live.update(self.picture(account, total))
        elif now - self._shown >= LINE_EVERY:
            self._shown = now
            self.say(
                f"  {account.published:,} of {total:,} published, {account.matched:,} matches, {account.polled:,} polled"
            )

    def picture(self, account: Account, total: int) -> Any:
        """Draws the server's processes, the progress of publishing, and the deliveries that were polled."""
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_row(
            "published", _bar(account.published, total, "cyan"), f"{account.published:,} of {total:,} products"
        )
        table.add_row(
            "matches",
            _bar(account.matched, max(account.matched, 1), "blue"),
            f"{account.matched:,}, checked one by one",
        )
        table.add_row(
            "polled", _bar(account.polled, max(account.matched, 1), "green"), f"{account.polled:,} deliveries"
        )
        most = max([*account.by_priority.values(), 1])
        for level in reversed(self._levels):
            count = account.by_priority[level]
            table.add_row(f"  {level}", _bar(count, most, "dim"), f"{count:,}")
        # The processes are a line of their own: as a cell of the table they would make the column of bars too wide for 80 columns.
        return Padding(Group(self._alive(), table, self._event), (1, 0, 0, 2))

    def _alive(self) -> Text:
        """Draws the processes; many of one kind are counted, except those that are gone."""
        living = [name for name, alive in self._processes.items() if alive]
        shards = [name for name in living if name.startswith("shard ")]
        if sum(name.startswith("shard ") for name in self._processes) > MOST_NAMED:
            living = [
                f"{len(shards)} shards" if name == shards[0] else name for name in living if name not in shards[1:]
            ]
        found = Text("processes".ljust(12))
        for name in (name for name, alive in self._processes.items() if not alive):
            found.append("✗ ", style="bold red").append(f"{name}  ")
        for name in living:
            found.append("● ", style="green").append(f"{name}  ")
        found.rstrip()
        return found


class _Said:
    """A step where there is no terminal: a single line."""

    def __init__(self, view: View, text: str) -> None:
        self._view, self._text = view, text

    def __enter__(self) -> None:
        self._view.say(self._text)

    def __exit__(self, *_: object) -> None: ...


def _bar(part: int, whole: int, style: str) -> Text:
    full = round(BAR * part / whole)
    return Text.assemble(("█" * full, style), ("░" * (BAR - full), "dim"))
