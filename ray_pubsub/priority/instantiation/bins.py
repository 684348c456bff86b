"""The bins of one attribute: number 0 is absence, then each kind has a run of bins between its edges (paper §4.3.1, Fig. 3).

Edges are cuts, just before or just after a value, so open and closed bounds, equality and every kind are one mechanism, and a rule whose
bounds are all edges is represented exactly.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.string_hashes import distinct_of
from ray_pubsub.columns.test_records import Side
from ray_pubsub.kernels.priority.signatures import bin_bounds
from ray_pubsub.language.value_set import ABOVE_ALL, BELOW_ALL, EVERYTHING, Cut, ValueSet
from ray_pubsub.language.words import write_operand
from ray_pubsub.model.event_batch import Lane, split_number
from ray_pubsub.model.values import Kind
from ray_pubsub.priority.discretizer import Function

__all__ = ["FunctionBins", "NumberEdges", "OrderedBins", "Ranges", "joined_ranges"]

KINDS = len(Kind)
Ranges = list[tuple[int, int]]
"""Ranges of bins, both ends included, ascending and not touching."""
NumberEdges = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.uint8]]
"""whole, rest, side."""
NO_EDGES: NumberEdges = (np.empty(0, np.int64), np.empty(0), np.empty(0, np.uint8))


class OrderedBins:
    """Bins between edges."""

    def __init__(self, numbers: dict[Kind, NumberEdges], strings: list[tuple[str, int]]) -> None:
        """`numbers` for every kind but strings; edges ascend and differ."""
        self.numbers: dict[Kind, NumberEdges] = {
            kind: numbers.get(kind, NO_EDGES) for kind in Kind if kind != Kind.STRING
        }
        self.strings = strings
        counts = [len(strings) if kind == Kind.STRING else len(self.numbers[kind][0]) for kind in Kind]
        self.count = np.array(counts, dtype=np.int64)
        ends = 1 + np.cumsum(self.count + 1)
        self.base: NDArray[np.int64] = ends - (self.count + 1)
        self.size = int(ends[-1])
        parts = [self.numbers.get(kind, NO_EDGES) for kind in Kind]
        self.first = np.concatenate([[0], np.cumsum([len(part[0]) for part in parts])])[:-1].astype(np.int64)
        self.edges = tuple(np.concatenate([part[field] for part in parts]) for field in range(3))
        self._lists: dict[Kind, list[tuple[int, float, int]]] = {}
        self._known: dict[str, int] = {}

    def string_bins(self, lane: Lane) -> NDArray[np.uint16]:
        """Returns the bin of each string of a lane."""
        assert lane.strings is not None
        which, distinct = distinct_of(lane.strings)
        base, known = int(self.base[Kind.STRING]), self._known
        if len(known) > 65_536:
            known = self._known = {}
        found = []
        for text in distinct:
            number = known.get(text)
            if number is None:
                number = known[text] = base + bisect_right(self.strings, (text, 0))
            found.append(number)
        return np.array(found, dtype=np.uint16)[which]

    def bounds(self, kind: Any, side: Any, whole: Any, rest: Any, *, upper: bool, inner: bool) -> NDArray[np.int64]:
        """Returns for many numeric bounds the first bin that each admits; with `upper`, the last. With `inner`, bins that are only partly
        admitted do not count."""
        bins = np.empty(len(kind), dtype=np.int64)
        tracks = (self.base, self.first, self.count)
        bin_bounds((kind, side, whole, rest), upper, inner, tracks, self.edges, bins)
        return bins

    def point(self, text: str) -> tuple[int, int]:
        """Returns the bin that holds a string, and the last bin up to it that holds no other string."""
        base = int(self.base[Kind.STRING])
        low, high = bisect_left(self.strings, (text, 0)) + 1, bisect_right(self.strings, (text, 1)) - 1
        found = base + bisect_right(self.strings, (text, 0))
        return found, found if low == high else found - 1

    def ranges(self, allowed: ValueSet, *, inner: bool = False) -> Ranges | None:
        """Returns the bins that hold some value of the set; with `inner`, the bins of which every value is in the set."""
        found: Ranges = [(0, 0)] if allowed.absent else []
        for kind in Kind:
            cuts = allowed.cuts(kind)
            for enter, leave in zip(cuts[::2], cuts[1::2], strict=True):
                found.append((self._bin_after(kind, enter, inner), self._bin_before(kind, leave, inner)))
        return joined_ranges(found)

    def _bin_after(self, kind: Kind, cut: Cut, inner: bool) -> int:
        base = int(self.base[kind])
        if cut == BELOW_ALL:
            return base
        edges, key = self._list(kind), self._key(kind, cut)
        return base + (bisect_left(edges, key) + 1 if inner else bisect_right(edges, key))

    def _bin_before(self, kind: Kind, cut: Cut, inner: bool) -> int:
        base = int(self.base[kind])
        if cut == ABOVE_ALL:
            return base + int(self.count[kind])
        edges, key = self._list(kind), self._key(kind, cut)
        return base + (bisect_right(edges, key) - 1 if inner else bisect_left(edges, key))

    def _list(self, kind: Kind) -> list[Any]:
        if kind == Kind.STRING:
            return self.strings
        if kind not in self._lists:
            whole, rest, side = self.numbers[kind]
            self._lists[kind] = list(zip(whole.tolist(), rest.tolist(), side.tolist(), strict=True))
        return self._lists[kind]

    @staticmethod
    def _key(kind: Kind, cut: Cut) -> Any:
        return (cut[1], cut[2]) if kind == Kind.STRING else (*split_number(cut[1]), cut[2])

    def thinned(self, kept: NDArray[np.bool_]) -> tuple[OrderedBins, NDArray[np.int64]]:
        """Returns the bins without the edges that `kept` drops (kept[b]: the edge between bins b - 1 and b), and for every new bin one of
        its old ones."""
        numbers: dict[Kind, NumberEdges] = {}
        strings = self.strings
        for kind in Kind:
            chosen = kept[int(self.base[kind]) + 1 : int(self.base[kind] + self.count[kind]) + 1]
            if kind == Kind.STRING:
                strings = [edge for edge, keep in zip(self.strings, chosen.tolist(), strict=True) if keep]
            else:
                whole, rest, side = self.numbers[kind]
                numbers[kind] = (whole[chosen], rest[chosen], side[chosen])
        begins = kept.copy()
        begins[0] = True
        begins[self.base] = True
        return OrderedBins(numbers, strings), np.flatnonzero(begins)

    def describe(self, first: int, last: int) -> str:
        """Returns a range of bins in words: `60 < number <= 80`."""
        kinds = [int(np.searchsorted(self.base, bin_, side="right")) - 1 for bin_ in (first, last)]
        if kinds[0] < 0:
            return "absent" if first == last else f"absent or {self.describe(1, last)}"
        if kinds[0] != kinds[1]:
            end = int(self.base[kinds[0] + 1])
            return f"{self.describe(first, end - 1)} or {self.describe(end, last)}"
        kind = Kind(kinds[0])
        base, edges = int(self.base[kind]), self._list(kind)
        low = None if first == base else edges[first - base - 1]
        high = None if last - base == len(edges) else edges[last - base]
        if low is not None and high is not None and low[:-1] == high[:-1]:
            return f"= {_edge_text(kind, low)}"
        text = str(kind)
        if low is not None:
            text = f"{_edge_text(kind, low)} {'<' if low[-1] else '<='} {text}"
        if high is not None:
            text += f" {'<=' if high[-1] else '<'} {_edge_text(kind, high)}"
        return text if low is not None or high is not None else f"any {kind}"

    def fingerprint(self) -> bytes:
        """Returns bytes that identify the edges: equal edges give equal bytes."""
        return b"".join([part.tobytes() for part in self.edges] + [self.count.tobytes(), repr(self.strings).encode()])


class FunctionBins:
    """Bins given by a user's function: 0 is absence, 1 … n are the function's, n + 1 holds the values for which it gives no bin."""

    def __init__(self, discretizer: Function) -> None:
        self.discretizer = discretizer
        self.size = discretizer.bins + 2
        self._known: dict[tuple[Kind, Any], int] = {}

    def bin_of(self, kind: Kind, plain: Any) -> int:
        if kind is Kind.LIST:  # no function of one value has a bin for it
            return self.size - 1
        known = self._known.get((kind, plain))
        if known is None:
            try:
                answer = self.discretizer.function(plain)
                fits = isinstance(answer, int | np.integer) and 0 <= answer < self.discretizer.bins
                known = int(answer) + 1 if fits else self.size - 1
            except Exception:  # an error of the user's function does not fail the event
                known = self.size - 1
            if len(self._known) > 65_536:
                self._known = {}
            self._known[kind, plain] = known
        return known

    def lane_bins(self, lane: Lane) -> NDArray[np.uint16]:
        """Returns the bin of each value of a lane."""
        if lane.kind == Kind.STRING:
            assert lane.strings is not None
            which, distinct = distinct_of(lane.strings)
            bins = np.array([self.bin_of(Kind.STRING, text) for text in distinct], dtype=np.uint16)
            return bins[which[lane.whole]]
        return np.array([self.bin_of(lane.kind, lane.plain(place)) for place in range(len(lane))], dtype=np.uint16)

    def ranges(self, allowed: ValueSet, *, inner: bool = False) -> Ranges | None:
        """Returns the bins that hold some value of the set; None if that cannot be computed without the function's inverse. With `inner`,
        the bins of which every value is in the set, which is never known of a function's bins."""
        found: Ranges = [(0, 0)] if allowed.absent else []
        if inner:
            return found
        for kind in Kind:
            cuts = allowed.cuts(kind)
            if cuts == EVERYTHING:
                found.append((1, self.size - 1))
                continue
            for enter, leave in zip(cuts[::2], cuts[1::2], strict=True):
                if len(enter) == len(leave) == 3 and enter[1] == leave[1]:
                    found.append((self.bin_of(kind, enter[1]),) * 2)
                elif self.discretizer.monotone:
                    found += self._between(kind, enter, leave)
                else:
                    return None
        return joined_ranges(found)

    def _between(self, kind: Kind, enter: Cut, leave: Cut) -> Ranges:
        """Returns the bins from one bound to the other, and the bin of values for which the function gives none: they may lie between the
        bounds."""
        other = self.size - 1
        low = 1 if enter == BELOW_ALL else self.bin_of(kind, enter[1])
        high = other - 1 if leave == ABOVE_ALL else self.bin_of(kind, leave[1])
        return [(1 if low == other else low, other - 1 if high == other else high), (other, other)]

    def describe(self, first: int, last: int) -> str:
        """Returns a range of bins in words."""
        names = [
            "absent" if bin_ == 0 else "no answer" if bin_ == self.size - 1 else str(bin_ - 1) for bin_ in (first, last)
        ]
        function = getattr(self.discretizer.function, "__name__", "a function")
        return f"{function}: {' to '.join(dict.fromkeys(names))}"

    def fingerprint(self) -> bytes:
        name = getattr(self.discretizer.function, "__qualname__", "")
        return f"{name}:{self.discretizer.bins}:{self.discretizer.monotone}".encode()


def joined_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorts ranges, and joins those that overlap or touch."""
    found: Ranges = []
    for low, high in sorted(each for each in ranges if each[0] <= each[1]):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def _edge_text(kind: Kind, edge: tuple[Any, ...]) -> str:
    if kind == Kind.STRING:
        return write_operand(kind, edge[0])
    whole, rest, _ = edge
    plain = whole if rest == 0 else (rest if abs(rest) >= 2.0**63 else whole + rest)
    return write_operand(kind, bool(plain) if kind == Kind.BOOLEAN else plain)


assert Side.BEFORE == 0 and Side.AFTER == 1, "an edge's side is a bound's side"
