"""All of many texts that occur in strings, found by their rarest bytes (kernels/columns/gram_search.py)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.gram_plan import GramCosts, PlannedPass, planned_passes
from ray_pubsub.columns.text_automaton import TextAutomaton
from ray_pubsub.kernels.columns.gram_choice import GramShape, choose_grams
from ray_pubsub.kernels.columns.gram_search import CANDIDATES, ENTRY, SLOT, Pass, ScratchRow, fill_table, find_grams
from ray_pubsub.model.text_column import TextBytes, TextColumn

__all__ = ["Literal", "LiteralSearch"]

AT_END = tuple(PlannedPass(length, length, 1) for length in (1, 2, 3, 4, 8))
"""A text at the end of a string is looked for in one place only."""
FOLD = 0x2020202020202020
BITS_PER_GRAM, LEAST_BITS, MOST_BITS = 64, 16, 20
"""Of the table of bits: not so dense that many places are compared in vain, and not so large that it leaves the near caches."""
BUDGET = 16
"""Comparisons per byte of the data, beyond which the automaton takes over."""
FREE_WORK = 1 << 16
"""Comparisons that any data may take."""


OVERWORKED = -2
"""What the kernel returns then."""


def read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same memory. Texts are read-only everywhere, and numba compiles a kernel once more for arrays that are not."""
    view = array.view()
    view.flags.writeable = False
    return view


ZERO = read_only(np.zeros(1, np.int64))


class Literal(NamedTuple):
    """A text to be found in strings: anywhere, or `at_end`; `folded`: in any case of its ASCII letters, which are in lower case here."""

    text: str
    at_end: bool = False
    folded: bool = False


class _Scratch(threading.local):
    """What a search writes to, for each thread."""

    def __init__(self, texts: int) -> None:
        self._places, self._found = np.empty(CANDIDATES + 1, np.int64), np.empty(CANDIDATES + 1, np.uint64)
        self._seen = np.zeros(texts, np.int64)
        self.stamp = 1
        self._set_room(64)
        self.stop = np.zeros(1, np.int64)
        self.read_only_stop = read_only(self.stop)

    def make_room(self) -> None:
        self._set_room(4 * len(self.text))

    def _set_room(self, room: int) -> None:
        self.string, self.text = np.empty(room, np.int32), np.empty(room, np.int32)
        places, found, seen, string, text = (
            array.ctypes.data for array in (self._places, self._found, self._seen, self.string, self.text)
        )
        self.row = np.array(ScratchRow(places, found, seen, len(self._seen), string, text, room), np.int64)
        """What the kernel takes."""


class LiteralSearch:
    """Immutable. Bytes of UTF-8 are searched: a text occurs in a string exactly where its bytes do."""

    def __init__(self, literals: Sequence[Literal], sample: TextColumn | None = None) -> None:
        """The literals are distinct and not empty. `sample`: strings such as will be searched."""
        self._literals = list(literals)
        self._texts = TextColumn.encoded([literal.text for literal in literals]).bytes
        at_end = np.array([literal.at_end for literal in literals])
        self._folded = np.array([literal.folded for literal in literals])
        self._kept: list[NDArray[Any]] = []
        """The arrays that passes have addresses of."""
        passes = [*self._inside(np.flatnonzero(~at_end), sample), *self._at_end(np.flatnonzero(at_end))]
        self._passes = np.array(passes, np.int64).reshape(-1, len(Pass._fields))
        self._scratch = _Scratch(len(self._literals))
        self._automaton: TextAutomaton | None = None

    def find(self, strings: TextColumn) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Pairs of a string and a text that occurs in it, as their numbers; in any order, each once."""
        data, start, stop = strings.bytes
        scratch = self._scratch
        while True:
            found = self._find(scratch, data, start, stop)
            if found >= 0:
                return scratch.string[:found].copy(), scratch.text[:found].copy()
            if found == OVERWORKED:
                return self._find_by_automaton(strings)
            scratch.make_room()

    def find_in_one(self, string: str) -> list[int]:
        """The texts that occur in a string, each once. No array is made: one short string takes three microseconds."""
        scratch = self._scratch
        raw = string.encode()
        scratch.stop[0] = len(raw)
        found = self._find(scratch, np.frombuffer(raw, np.uint8), ZERO, scratch.read_only_stop)
        if found < 0:
            return list(map(int, self.find(TextColumn(None, [string]))[1]))
        numbers: list[int] = scratch.text[:found].tolist()
        return numbers

    def _find(
        self, scratch: _Scratch, data: NDArray[np.uint8], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> int:
        stamp, scratch.stamp = scratch.stamp, scratch.stamp + len(start)
        budget = BUDGET * len(data) + FREE_WORK
        found: int = find_grams(self._passes, data, start, stop, scratch.row, stamp, budget)
        return found

    def _inside(self, chosen: NDArray[np.int64], sample: TextColumn | None) -> Iterator[Pass]:
        """The passes that search for texts anywhere."""
        if not len(chosen):
            return
        fold = self._fold(chosen)
        texts = TextBytes(self._texts.data, self._texts.start[chosen], self._texts.stop[chosen])
        costs = GramCosts(texts, sample, fold)
        for planned, part in _parts(planned_passes(texts, costs, fold), texts):
            yield self._pass(planned, chosen[part], fold, costs.of(planned.width))

    def _at_end(self, chosen: NDArray[np.int64]) -> Iterator[Pass]:
        """The passes that look at the ends of strings."""
        texts = TextBytes(self._texts.data, self._texts.start[chosen], self._texts.stop[chosen])
        for planned, part in _parts(AT_END, texts):
            yield self._pass(planned, chosen[part], self._fold(chosen), None)

    def _fold(self, chosen: NDArray[np.int64]) -> int:
        return FOLD if self._folded[chosen].any() else 0

    def _pass(
        self, planned: PlannedPass, chosen: NDArray[np.int64], fold: int, costs: NDArray[np.float64] | None
    ) -> Pass:
        """The record of a pass, see Pass. Without costs the gram is the end of each text."""
        data, starts, stops = self._texts
        start, stop = starts[chosen], stops[chosen]
        _, width, stride = planned
        at_end = costs is None
        begin = stop - width if at_end else start
        offset, grams = np.empty(len(chosen), np.int64), np.empty((len(chosen), stride), np.uint64)
        if costs is None:
            costs = np.zeros(1)
        choose_grams(TextBytes(data, begin, stop), GramShape(width, stride, fold), costs, offset, grams)
        offset += begin - start
        distinct, group = np.unique(grams, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(group.ravel()))])
        entries = self._entries(chosen, offset)[order // stride]
        entries["offset"] += (order % stride).astype(np.int32)
        bits = min(MOST_BITS, max(LEAST_BITS, (BITS_PER_GRAM * len(distinct) - 1).bit_length()))
        table, slots = np.zeros(1 << (bits - 3), np.uint8), np.zeros(1 << (len(distinct) * 4 // 3).bit_length(), SLOT)
        before, behind = (self._neighbours(entries, place, fold) for place in (-1, width))
        fill_table(distinct, first, before, behind, 64 - bits, table, slots)
        self._kept += [table, slots, entries]
        addresses = (table.ctypes.data, slots.ctypes.data, entries.ctypes.data, data.ctypes.data)
        return Pass(width, stride, at_end, fold, 64 - bits, len(slots) - 1, *addresses)

    def _entries(self, chosen: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[Any]:
        """One per text, see ENTRY. What is compared first is the end of the text that is farther from its gram."""
        data, starts, stops = self._texts
        start, length = starts[chosen], (stops - starts)[chosen]
        entries = np.zeros(len(chosen), ENTRY)
        entries["text"], entries["offset"], entries["start"], entries["length"] = chosen, offset, start, length
        entries["folded"] = self._folded[chosen]
        check = np.where((length >= 8) & (2 * offset < length), length - 8, 0)
        entries["check_offset"] = check
        padded = np.concatenate([data, np.zeros(8, np.uint8)])
        for place in range(8):
            byte = padded[start + check + place].astype(np.uint64) * (place < length)
            entries["check"] |= byte << np.uint64(8 * place)
        return entries

    def _neighbours(self, entries: NDArray[Any], place: int, fold: int) -> NDArray[np.uint64]:
        """Per entry a set of one byte, that at a place relative to the gram; of all bytes if that is outside of the text."""
        offset = entries["offset"] + place
        inside = (offset >= 0) & (offset < entries["length"])
        byte = self._texts.data[np.where(inside, entries["start"] + offset, 0)] | np.uint8(fold & 0xFF)
        return np.where(inside, np.uint64(1) << (byte & np.uint8(63)).astype(np.uint64), ~np.uint64(0))

    def _find_by_automaton(self, strings: TextColumn) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The same by an automaton of the lower-case texts, whose time does not depend on what the texts have in common."""
        if self._automaton is None:
            self._automaton = TextAutomaton(self._literals)
        return self._automaton.find(strings)


def _parts(passes: Sequence[PlannedPass], texts: TextBytes) -> Iterator[tuple[PlannedPass, NDArray[np.int64]]]:
    """Each pass with its texts, if there are any."""
    number = np.searchsorted([each.least for each in passes], texts.stop - texts.start, side="right") - 1
    for place in np.unique(number).tolist():
        yield passes[place], np.flatnonzero(number == place)
