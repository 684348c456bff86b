"""OpIndex section 6.1: subscriptions that are conjunctions of disjunctions, too many-sided to be written out as clauses.

    (model = 1 or colour = 2) and (price <= 5 or …) and …

A subscription's pivots are the attributes of its disjunction with the fewest predicates (footnote 8: of the least sum of attribute
frequencies among equals); an event that carries none of them cannot match it. What the paper leaves open:
- A disjunction with a member that admits absence can hold without any attribute, so it is no pivot, and its bit is no proof: it starts
  closed, and the whole subscription is compared when the others hold. With no other disjunction, every event compares it.
- A member that is an interval is one predicate (kernels/disjunction_lists.py says why), not two.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.kernels import disjunction_lists
from ray_pubsub.kernels.disjunction_lists import AT_LEAST, AT_MOST, BETWEEN, EQUAL, OPERATORS
from ray_pubsub.kernels.pivot_lists import count_order
from ray_pubsub.kernels.predicate_lists import sign_groups

__all__ = ["CnfIndex", "Disjunction"]

Disjunction = Sequence[tuple[int, int, int]]
"""Tests (column, low, high), of which one must hold: the codes low … high of the column, where code 0 is absence."""
WORD = 64


class CnfIndex:
    """Immutable. `match` may run in several threads at once: scratch is per thread."""

    def __init__(
        self,
        subscriptions: Sequence[Sequence[Disjunction]],
        top: NDArray[np.int32],
        frequency: NDArray[np.float64] | None = None,
        *,
        segments: int = 32,
        bits: int = 64,
    ) -> None:
        """`top`: per column its largest code; `frequency`: per column the part of events that carry it, by default as often as the
        subscriptions' tests name it."""
        columns, self._bits = len(top), bits
        self._base = np.concatenate([[0], np.cumsum(np.asarray(top, np.int64) + 1)])
        flat = [disjunction for subscription in subscriptions for disjunction in subscription]
        tests = np.array(list(chain.from_iterable(flat)), np.int32).reshape(-1, 3)
        self._disjunctions = _starts([len(subscription) for subscription in subscriptions])
        self._members = _starts([len(disjunction) for disjunction in flat])
        self._tests = tuple(np.ascontiguousarray(tests[:, part]) for part in range(3))
        if frequency is None:
            frequency = np.bincount(tests[:, 0], minlength=columns).astype(np.float64)
        self.pivots = [pivots_of(subscription, frequency) for subscription in subscriptions]
        """Per subscription its pivots; none if every event must compare it."""
        counted = np.concatenate([[0], np.cumsum(self._tests[1] <= 0)])
        self._admits_absence = counted[self._members[1:]] > counted[self._members[:-1]]
        counted = np.concatenate([[0], np.cumsum(self._admits_absence)])
        self._is_checked = counted[self._disjunctions[1:]] > counted[self._disjunctions[:-1]]
        self._place(columns)
        self._fill(np.asarray(top), segments)
        self._scratch = threading.local()

    def __len__(self) -> int:
        return len(self.pivots)

    def _place(self, columns: int) -> None:
        """Entries by partition: one per subscription and pivot, the universal ones last."""
        pairs = [(pivot, number) for number, pivots in enumerate(self.pivots) for pivot in (pivots or (columns,))]
        pairs.sort()
        column = np.array([pivot for pivot, _ in pairs], np.int64)
        self._subscription_of = np.array([number for _, number in pairs], np.int32)
        used = np.unique(column[column < columns])
        self._partition_of = np.full(columns, -1, np.int64)
        self._partition_of[used] = np.arange(len(used))
        self._partition_entries = np.append(np.searchsorted(column, [*used.tolist(), columns]), len(pairs))
        sizes = np.diff(self._disjunctions)[self._subscription_of]
        self._entry_words = _starts(-(-sizes // WORD))

    def _fill(self, top: NDArray[np.int32], segments: int) -> None:
        universal = int(self._partition_entries[-2])
        sizes = np.diff(self._disjunctions)[self._subscription_of[:universal]]
        disjunction = _ranges(self._disjunctions[self._subscription_of[:universal]], sizes)
        target = _ranges(self._entry_words[:universal] * WORD, sizes)
        partition = np.repeat(np.searchsorted(self._partition_entries, np.arange(universal), side="right") - 1, sizes)
        needed = ~self._admits_absence[disjunction]
        disjunction, target, partition = disjunction[needed], target[needed], partition[needed]
        self._initial = np.zeros(int(self._entry_words[-1]), np.uint64)
        np.bitwise_or.at(self._initial, target // WORD, np.uint64(1) << (target % WORD).astype(np.uint64))
        sizes = np.diff(self._members)[disjunction]
        member = _ranges(self._members[disjunction], sizes)
        target, partition = np.repeat(target, sizes), np.repeat(partition, sizes)
        possible = np.flatnonzero(self._tests[1][member] <= self._tests[2][member])
        target, partition = target[possible], partition[possible]
        column, low, high = (part[member[possible]] for part in self._tests)
        whole = top[column]
        high = np.minimum(high, whole)
        operator = np.select([low == high, low <= 1, high >= whole], [EQUAL, AT_MOST, AT_LEAST], BETWEEN)
        lists = OPERATORS * max(1, len(self._partition_entries) - 2)
        self._segments = max(1, min(segments, len(column) // lists))
        group = (partition * self._segments + column % self._segments) * OPERATORS + operator
        key = self._base[column] + np.where(operator == AT_MOST, high, low)
        by_key = np.argsort(key, kind="stable")
        within, starts = count_order(group[by_key], lists * self._segments)
        order = by_key[within]
        self._group_offsets = starts[: lists * self._segments + 1]
        self._keys, self._targets = key[order], target[order]
        self._last_keys = self._base[column[order]] + high[order]
        self._signatures = np.zeros(lists * self._segments, np.uint64)
        sign_groups(self._group_offsets, self._keys, column[order], self._bits, OPERATORS, self._signatures)

    def match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Per event the numbers of the subscriptions all of whose disjunctions hold, each once: (offsets, numbers)."""
        events = len(codes.offsets) - 1
        values, bitmap, seen, clock = self._buffers()
        epoch = int(clock[0])
        clock[0] += events
        offsets = np.zeros(events + 1, np.int64)
        out = np.empty(len(self) + 1 + 64 * events, np.int32)
        event = 0
        while event < events:
            event = disjunction_lists.match_disjunctions(
                event, codes.offsets, codes.column, codes.code, self._base, self._partition_of, self._partition_entries,
                self._entry_words, self._subscription_of, self._segments, self._bits, self._signatures, self._group_offsets,
                self._keys, self._last_keys, self._targets, self._initial, self._is_checked,
                self._disjunctions, self._members, *self._tests, values, bitmap, seen, epoch, offsets, out,
            )  # fmt: skip
            if event < events:
                out = np.concatenate([out, np.empty(len(out), np.int32)])
        return offsets, out[: offsets[-1]]

    def _buffers(self) -> tuple[Any, Any, Any, Any]:
        buffers: tuple[Any, Any, Any, Any] | None = getattr(self._scratch, "buffers", None)
        if buffers is None:
            columns = len(self._partition_of)
            seen, clock = np.full(len(self), -1, np.int64), np.zeros(1, np.int64)
            buffers = (np.zeros(columns, np.int32), np.empty_like(self._initial), seen, clock)
            self._scratch.buffers = buffers
        return buffers


def pivots_of(subscription: Sequence[Disjunction], frequency: NDArray[np.float64]) -> list[int]:
    """The attributes of the disjunction with the fewest predicates, of the least sum of frequencies among equals; only of those none of
    whose members admits absence."""
    choices = [
        (len(disjunction), sum(float(frequency[column]) for column in columns), sorted(columns))
        for disjunction in subscription
        if not _admits_absence(disjunction)
        for columns in [{column for column, _, _ in disjunction}]
    ]
    return min(choices)[2] if choices else []


def _admits_absence(disjunction: Disjunction) -> bool:
    return any(low <= 0 for _, low, _ in disjunction)


def _starts(lengths: Any) -> NDArray[np.int64]:
    starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))])
    return starts


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1, … for each start, one after the other."""
    ranges: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(
        starts - np.cumsum(lengths) + lengths, lengths
    )
    return ranges
