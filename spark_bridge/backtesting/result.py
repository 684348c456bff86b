"""The result of a back-test: how often each subscription would have matched, in which windows of time, and which events."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ray_pubsub.errors import Rejection, UnknownSubscriptionError, counted
from ray_pubsub.model.id_column import ids_of
from ray_pubsub.model.match_batch import arrow_ids

__all__ = ["Backtest", "BadRows", "Example"]

SHOWN_SUBSCRIPTIONS, SHOWN_WINDOWS, SHOWN_REASONS, SHOWN_CHARACTERS = 20, 14, 5, 36


@dataclass(frozen=True, slots=True)
class BadRows:
    """Events that could not be used for the same reason; the text is that of the first of them."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class Example:
    """An event that matched: its id, as text, if there is a column of ids, and its attributes. An index takes `event` as it is."""

    event_id: str | None
    event: dict[str, Any]


@dataclass(slots=True, eq=False)
class Backtest:
    """The result of a back-test: print it to read it, or convert it with `to_pandas()` or `to_arrow()`."""

    ids: list[str | int]
    expressions: list[str]
    counts: NDArray[np.int64]
    """The number of events that each subscription would have matched."""
    rows: int
    """The number of events read, including bad ones."""
    matched_rows: int
    """The number of events that at least one subscription would have matched."""
    bad: list[BadRows]
    """The events that could not be used, most frequent reason first."""
    rejections: list[Rejection]
    """The subscriptions that could not be used; they are not among the `ids`."""
    window: str | None = None
    windows: list[datetime.datetime | None] = field(default_factory=list)
    """The beginnings of the windows in which there was an event, by the wall clock of the session's zone; None, for events without a
    time (in the years 1 to 9999), is last."""
    window_rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """The number of events read in each window."""
    cells: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None = None
    """Positions of subscriptions, numbers of windows, and the matches of each combination that has any."""
    found: dict[int, list[Example]] = field(default_factory=dict)
    """The examples, by position of the subscription."""
    _positions: dict[str | int, int] | None = None

    @property
    def bad_rows(self) -> int:
        return sum(reason.count for reason in self.bad)

    @property
    def rates(self) -> NDArray[np.float64]:
        """The matches of each subscription per usable event; 0 if there was none."""
        rates: NDArray[np.float64] = self.counts / max(1, self.rows - self.bad_rows)
        return rates

    def count(self, id: str | int) -> int:
        """Returns the number of events that this subscription would have matched."""
        return int(self.counts[self._position(id)])

    def examples(self, id: str | int) -> list[Example]:
        """Returns some of the events that this subscription would have matched, the first ones of the DataFrame's first partitions."""
        return self.found.get(self._position(id), [])

    def busiest(self) -> NDArray[np.int64]:
        """Returns the most matches of each subscription in one window."""
        most = np.zeros(len(self.ids), dtype=np.int64)
        if self.cells is not None:
            timed = np.array([start is not None for start in self.windows], dtype=bool)
            subscriptions, windows, counts = self.cells
            keep = timed[windows] if len(windows) else np.zeros(0, dtype=bool)
            np.maximum.at(most, subscriptions[keep], counts[keep])
        return most

    def per_window(self) -> NDArray[np.float64]:
        """Returns the mean of each subscription's matches per window in which there was an event."""
        total = np.zeros(len(self.ids), dtype=np.int64)
        timed = np.array([start is not None for start in self.windows], dtype=bool)
        if self.cells is not None and len(self.cells[0]):
            subscriptions, windows, counts = self.cells
            keep = timed[windows]
            np.add.at(total, subscriptions[keep], counts[keep])
        mean: NDArray[np.float64] = total / max(1, int(timed.sum()))
        return mean

    def to_arrow(self) -> Any:
        """Returns a row for each subscription: id, expression, matches, rate and, if there are windows, per_window (the mean) and
        busiest."""
        return pa.table({"id": arrow_ids("id", ids_of(self.ids)), **self._columns()})

    def to_pandas(self) -> Any:
        """Returns the same as a pandas DataFrame, in which ids of str and int may be mixed."""
        import pandas as pd

        return pd.DataFrame({"id": pd.Series(self.ids, dtype=None if _alike(self.ids) else object), **self._columns()})

    def windows_to_arrow(self) -> Any:
        """Returns a row for each subscription and window with a match: id, window, matches."""
        subscriptions, windows, counts = self.cells or (np.empty(0, dtype=np.int64),) * 3
        starts = pa.array(self.windows, pa.timestamp("us"))
        ids = arrow_ids("id", ids_of(self.ids)).take(pa.array(subscriptions))
        return pa.table({"id": ids, "window": starts.take(pa.array(windows)), "matches": counts})

    def windows_to_pandas(self) -> Any:
        """Returns the same as a pandas DataFrame."""
        return self.windows_to_arrow().to_pandas()

    def _columns(self) -> dict[str, Any]:
        columns = {"expression": self.expressions, "matches": self.counts, "rate": self.rates}
        return (
            columns if self.window is None else columns | {"per_window": self.per_window(), "busiest": self.busiest()}
        )

    def _position(self, id: str | int) -> int:
        if self._positions is None:
            self._positions = {known: position for position, known in enumerate(self.ids)}
        if type(id) not in (str, int) or id not in self._positions:
            raise UnknownSubscriptionError(id)
        return self._positions[id]

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [self._headline(), self._subscriptions()]
        if self.window is not None:
            parts.append(self._windows())
        for what, lines in (("bad events", self._bad_lines()), ("subscriptions left out", self._rejected_lines())):
            if lines:
                parts.append(Text(f"{what}:\n" + "\n".join(f"  {line}" for line in lines), style="yellow"))
        return Group(*parts)

    def __str__(self) -> str:
        console = Console(width=120, force_terminal=False, color_system=None)
        with console.capture() as captured:
            console.print(self)
        return captured.get().rstrip()

    def __repr__(self) -> str:
        return (
            f"Backtest({counted(len(self.ids), 'subscription')}, {counted(self.rows, 'event')}, "
            f"{counted(int(self.counts.sum()), 'match', 'matches')})"
        )

    def _headline(self) -> Text:
        share = 100 * self.matched_rows / max(1, self.rows)
        bad = f", {self.bad_rows:,} bad" if self.bad_rows else ""
        return Text(
            f"{counted(self.rows, 'event')}{bad}; {self.matched_rows:,} ({share:.3g} %) match at least one of "
            f"{counted(len(self.ids), 'subscription')}"
        )

    def _subscriptions(self) -> Table:
        """Returns the table of subscriptions, the most frequent first."""
        table = Table()
        table.add_column("subscription")
        table.add_column("expression")
        numeric = ["matches", "of events", *([] if self.window is None else [f"per {self.window}", "busiest"])]
        for name in numeric:
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("an example")
        means, most, rates = self.per_window(), self.busiest(), self.rates
        order = np.argsort(-self.counts, kind="stable")
        for place in order[:SHOWN_SUBSCRIPTIONS].tolist():
            cells: list[str | Text] = [
                Text(_short(str(self.ids[place]))),
                Text(_short(self.expressions[place])),
                f"{self.counts[place]:,}",
                f"{100 * rates[place]:.3g} %",
            ]
            if self.window is not None:
                cells += [f"{means[place]:,.4g}", f"{most[place]:,}"]
            table.add_row(*cells, Text(_short(_shown(self.found.get(place, [])))))
        if len(order) > SHOWN_SUBSCRIPTIONS:
            table.caption = f"and {len(order) - SHOWN_SUBSCRIPTIONS:,} more in .to_pandas()"
        return table

    def _windows(self) -> Table:
        table = Table("window")
        table.add_column("events", justify="right")
        table.add_column("matches", justify="right")
        totals = np.zeros(len(self.windows), dtype=np.int64)
        if self.cells is not None:
            np.add.at(totals, self.cells[1], self.cells[2])
        dates = all(start is None or start.time() == datetime.time() for start in self.windows)
        for number, start in list(enumerate(self.windows))[-SHOWN_WINDOWS:]:
            moment = "no time" if start is None else str(start.date() if dates else start)
            table.add_row(moment, f"{self.window_rows[number]:,}", f"{totals[number]:,}")
        if len(self.windows) > SHOWN_WINDOWS:
            table.caption = f"and {len(self.windows) - SHOWN_WINDOWS:,} earlier ones in .windows_to_pandas()"
        return table

    def _bad_lines(self) -> list[str]:
        return _cut([f"{reason.count:,} x {reason.reason}" for reason in self.bad], "in .bad")

    def _rejected_lines(self) -> list[str]:
        return _cut([str(rejection).replace("\n", "\n  ") for rejection in self.rejections], "in .rejections")


def _cut(lines: list[str], where: str) -> list[str]:
    more = [f"and {len(lines) - SHOWN_REASONS:,} more {where}"] if len(lines) > SHOWN_REASONS else []
    return lines[:SHOWN_REASONS] + more


def _shown(examples: list[Example]) -> str:
    if not examples:
        return ""
    first = examples[0]
    return " ".join(
        [
            *([] if first.event_id is None else [f"{first.event_id}:"]),
            *(f"{name}={value}" for name, value in first.event.items()),
        ]
    )


def _short(text: str) -> str:
    """Shortens a cell of a table, so that it fits a terminal."""
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def _alike(ids: list[str | int]) -> bool:
    return len({type(identity) for identity in ids}) <= 1
