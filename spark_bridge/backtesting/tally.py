"""The counts of one task of a back-test: matches per subscription and window, and a few examples of each.

Counts are kept as pairs of a key (the window's number times the number of subscriptions, plus the subscription) and a count, so that a
million subscriptions that rarely match cost little. When there are too many pairs they are handed to Spark, which adds up those of all
tasks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["BAD", "EXAMPLE", "MATCHED", "MATCHES", "PARTIAL_SCHEMA", "ROWS", "Tally"]

ROWS, MATCHED, MATCHES, BAD, EXAMPLE = "rows", "matched", "matches", "bad", "example"
"""What a partial row counts: events; events with a match; matches of a subscription; bad events. An EXAMPLE row is an example of a
match."""

PARTIAL_SCHEMA = (
    "part string, subscription bigint, window timestamp_ntz, reason string, number bigint, "
    "partition int, position bigint, event_id string, event binary"
)
ARROW_SCHEMA = pa.schema(
    [
        ("part", pa.string()),
        ("subscription", pa.int64()),
        ("window", pa.timestamp("us")),
        ("reason", pa.string()),
        ("number", pa.int64()),
        ("partition", pa.int32()),
        ("position", pa.int64()),
        ("event_id", pa.string()),
        ("event", pa.binary()),
    ]
)
PAIRS_AT_MOST = 1 << 20
DENSE_AT_MOST = 1 << 22
REASONS_AT_MOST = 100
OTHER_REASONS = "other reasons"
NUMBER = re.compile(r"-?\d[\d.eE+-]*")


@dataclass(slots=True)
class Tally:
    """The counts of a task, added batch by batch; `rows()` returns the content for Spark, and empties it."""

    subscriptions: int
    partition: int
    examples: NDArray[np.int64]
    """The number of examples that are still wanted of each subscription."""
    windows: dict[int | None, int] = field(default_factory=dict)
    """The number of each window, by its beginning in microseconds."""
    keys: list[NDArray[np.int64]] = field(default_factory=list)
    counts: list[NDArray[np.int64]] = field(default_factory=list)
    totals: dict[tuple[str, int], int] = field(default_factory=dict)
    """The number of events, by (ROWS or MATCHED, window)."""
    bad: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """For each kind of reason the number of events, and the position and wording of the first."""
    found: list[tuple[int, int, str | None, bytes]] = field(default_factory=list)
    """The examples: subscription, position, event id, event."""

    def window_numbers(self, starts: Any) -> NDArray[np.int64]:
        """Returns the number of each window in a column of beginnings."""
        encoded = starts.dictionary_encode(null_encoding="encode")
        beginnings = encoded.dictionary.cast(pa.int64()).to_pylist()
        numbers = np.array([self.windows.setdefault(start, len(self.windows)) for start in beginnings], dtype=np.int64)
        places: NDArray[np.int64] = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
        return places

    def add_events(self, windows: NDArray[np.int64], per_event: NDArray[np.int64]) -> None:
        """Adds the events of a batch: each event's window, and how many subscriptions it matched."""
        for part, chosen in ((ROWS, windows), (MATCHED, windows[per_event > 0])):
            counted = np.bincount(chosen, minlength=1)
            for window in np.flatnonzero(counted).tolist():
                self.totals[part, window] = self.totals.get((part, window), 0) + int(counted[window])

    def add_matches(self, windows: NDArray[np.int64], subscriptions: NDArray[np.int64]) -> None:
        """Adds the matches of a batch: the window and the subscription of each."""
        if not len(subscriptions):
            return
        keys = windows * self.subscriptions + subscriptions
        size = len(self.windows) * self.subscriptions
        if size <= max(DENSE_AT_MOST, 4 * len(keys)):
            counted = np.bincount(keys)
            places = np.flatnonzero(counted)
            self.keys.append(places)
            self.counts.append(counted[places])
        else:
            distinct, counted = np.unique(keys, return_counts=True)
            self.keys.append(distinct)
            self.counts.append(counted)
        if self.pairs > PAIRS_AT_MOST:
            self._add_up()

    def add_bad(self, position: int, reason: str) -> None:
        """Adds an event that could not be used. Reasons that differ only in a number count as one."""
        kind = NUMBER.sub("#", reason)
        if kind not in self.bad and len(self.bad) >= REASONS_AT_MOST:
            kind = reason = OTHER_REASONS
        count, first, words = self.bad.get(kind, (0, position, reason))
        self.bad[kind] = (count + 1, first, words)

    def wanted(self, subscriptions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the matches of a batch that become examples: the first of each subscription that still lacks some."""
        places = np.flatnonzero(subscriptions < len(self.examples))
        places = places[self.examples[subscriptions[places]] > 0]
        if not len(places):
            return places
        order = places[np.argsort(subscriptions[places], kind="stable")]
        ordered = subscriptions[order]
        first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        rank = np.arange(len(ordered)) - np.repeat(first, np.diff(np.append(first, len(ordered))))
        chosen = order[rank < self.examples[ordered]]
        np.subtract.at(self.examples, subscriptions[chosen], 1)
        return chosen

    @property
    def pairs(self) -> int:
        return sum(map(len, self.keys))

    def rows(self) -> Any:
        """Returns the whole content as one record batch of partial results, and empties it; the wanted examples stay as they are."""
        self._add_up()
        starts = np.array([0 if start is None else start for start in self.windows], dtype=np.int64)
        missing = np.array([start is None for start in self.windows], dtype=bool)
        keys = self.keys[0] if self.keys else np.empty(0, dtype=np.int64)
        counts = self.counts[0] if self.counts else np.empty(0, dtype=np.int64)
        windows, subscriptions = np.divmod(keys, self.subscriptions)
        tables = [
            _table(
                len(keys),
                MATCHES,
                subscription=subscriptions,
                window=pa.array(starts[windows], pa.timestamp("us"), mask=missing[windows]),
                number=counts,
            )
        ]
        totals = list(self.totals.items())
        for part in (ROWS, MATCHED):
            of = np.array([window for (name, window), _ in totals if name == part], dtype=np.int64)
            number = np.array([count for (name, _), count in totals if name == part], dtype=np.int64)
            column = pa.array(starts[of], pa.timestamp("us"), mask=missing[of])
            tables.append(_table(len(of), part, window=column, number=number))
        bad = list(self.bad.items())
        tables.append(
            _table(
                len(bad),
                BAD,
                reason=[kind for kind, _ in bad],
                number=[count for _, (count, _, _) in bad],
                partition=[self.partition] * len(bad),
                position=[position for _, (_, position, _) in bad],
                event=[words.encode() for _, (_, _, words) in bad],
            )
        )
        tables.append(
            _table(
                len(self.found),
                EXAMPLE,
                subscription=[subscription for subscription, _, _, _ in self.found],
                partition=[self.partition] * len(self.found),
                position=[position for _, position, _, _ in self.found],
                event_id=[identity for _, _, identity, _ in self.found],
                event=[event for _, _, _, event in self.found],
            )
        )
        self.keys, self.counts, self.totals, self.bad, self.found = [], [], {}, {}, []
        return pa.concat_tables(tables).combine_chunks()

    def _add_up(self) -> None:
        if len(self.keys) > 1:
            keys, counts = np.concatenate(self.keys), np.concatenate(self.counts)
            order = np.argsort(keys, kind="stable")
            keys, counts = keys[order], counts[order]
            first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
            self.keys, self.counts = [keys[first]], [np.add.reduceat(counts, first)]


def _table(length: int, part: str, **columns: Any) -> Any:
    """Returns partial rows of one part; columns that are not given are null."""
    arrays = [pa.array([part] * length if length < 1000 else np.full(length, part), pa.string())]
    for column in list(ARROW_SCHEMA)[1:]:
        given = columns.get(column.name)
        if given is None:
            arrays.append(pa.nulls(length, column.type))
        else:
            arrays.append(given if isinstance(given, pa.Array) else pa.array(given, column.type))
    return pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA)
