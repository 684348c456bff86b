"""Finds all of many texts that occur in strings, by their rarest grams (kernels/columns/gram_search.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.gram_plan import GramCosts, PlannedPass, planned_passes
from ray_pubsub.columns.text_automaton import TextAutomaton
from ray_pubsub.kernels.columns.found_texts import texts_by_string
from ray_pubsub.kernels.columns.gram_choice import GramShape, choose_grams
from ray_pubsub.kernels.columns.gram_search import (
    CANDIDATES,
    ENTRY,
    EXACT,
    FOLDED,
    FREE_BITS,
    MULTIPLIER,
    Pass,
    ScratchRow,
    fill_tables,
    find_grams,
)
from ray_pubsub.model.text_column import TextBytes, TextColumn
from ray_pubsub.workspace import PerThread

__all__ = ["Literal", "LiteralSearch"]

AT_END = tuple(PlannedPass(length, length, 1) for length in (1, 2, 3, 4, 8))
"""Passes for texts at the end of a string, which is the only position to examine."""
FOLD = 0x2020202020202020
BITS_PER_GRAM, LEAST_BITS, MOST_BITS = 64, 16, 20
"""Size of the bit table: sparse enough that few positions are compared in vain, and small enough for the near caches."""
HEADS_PER_GRAM = 2
BUDGET = 16
"""Comparisons per byte of the data, beyond which the automaton takes over."""
FREE_WORK = 1 << 16
"""Comparisons that are allowed for data of any size."""

NO_ROOM, OVERWORKED = -1, -2
"""The kernel's return values if the pairs do not fit, or if it exceeds its budget."""


def read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns a read-only view. Texts are read-only everywhere, and numba would compile a kernel again for writable arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


ZERO = read_only(np.zeros(1, np.int64))


class Literal(NamedTuple):
    """A text to be found in strings: anywhere, or only `at_end`. With `folded`, the text is in lower case and its ASCII letters match in
    either case."""

    text: str
    at_end: bool = False
    folded: bool = False


class _Scratch:
    """The buffers that a search writes to. Each thread has its own."""

    def __init__(self, texts: int) -> None:
        self._lists: list[NDArray[Any]] = [np.empty(CANDIDATES + 2, dtype) for dtype in (np.int64, np.uint64)]
        self.seen, self._small = np.zeros(texts, np.int64), np.zeros(8, np.uint8)
        self._stamp = 1
        self._set_room(64)
        self.stop = np.zeros(1, np.int64)
        self.read_only_stop = read_only(self.stop)

    def next_stamp(self, strings: int) -> int:
        """Reserves one stamp per string and returns the first."""
        stamp, self._stamp = self._stamp, self._stamp + strings
        return stamp

    def make_room(self) -> None:
        self._set_room(4 * len(self.text))

    def _set_room(self, room: int) -> None:
        self.string, self.text = np.empty(room, np.int32), np.empty(room, np.int32)
        places, found = (each.ctypes.data for each in self._lists)
        seen, small, string, text = (each.ctypes.data for each in (self.seen, self._small, self.string, self.text))
        row = ScratchRow(places, found, seen, small, len(self.seen), string, text, room)
        self.row = np.array(row, np.int64)
        """The buffers' addresses, as the kernel takes them."""


class LiteralSearch:
    """Immutable. It searches bytes of UTF-8: a text occurs in a string exactly where its bytes do."""

    def __init__(self, literals: Sequence[Literal], sample: TextColumn | None = None) -> None:
        """The literals are distinct and not empty. `sample`: strings similar to those that will be searched."""
        self._literals = list(literals)
        self._texts = TextColumn.encoded([literal.text for literal in literals]).bytes
        at_end = np.array([literal.at_end for literal in literals])
        self._folded = np.array([literal.folded for literal in literals])
        self._kept: list[NDArray[Any]] = []
        """Keeps the arrays alive whose addresses the passes contain."""
        passes = [*self._inside(np.flatnonzero(~at_end), sample), *self._at_end(np.flatnonzero(at_end))]
        self._passes = np.array(passes, np.int64).reshape(-1, len(Pass._fields))
        self._scratch: PerThread[_Scratch] = PerThread()
        self._automaton: TextAutomaton | None = None

    def find(self, strings: TextColumn) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns offsets and numbers: string i contains the texts numbers[offsets[i]:offsets[i + 1]], in any order, each once."""
        data, start, stop = strings.bytes
        scratch = self._scratch.get(self._make_scratch)
        found = self._find(scratch, data, start, stop)
        while found == NO_ROOM:
            scratch.make_room()
            found = self._find(scratch, data, start, stop)
        pairs = scratch.string[:found], scratch.text[:found]
        if found == OVERWORKED:
            pairs = self._found_by_automaton(strings)
        offsets, texts = np.zeros(len(start) + 1, np.int64), np.empty(len(pairs[0]), np.int32)
        texts_by_string(*pairs, offsets, texts)
        return offsets, texts

    def find_in_one(self, string: str) -> list[int]:
        """Returns the texts that occur in a string, each once. It creates no array: one short string takes three microseconds."""
        scratch = self._scratch.get(self._make_scratch)
        raw = string.encode()
        scratch.stop[0] = len(raw)
        found = self._find(scratch, np.frombuffer(raw, np.uint8), ZERO, scratch.read_only_stop)
        if found < 0:
            return list(map(int, self.find(TextColumn(None, [string]))[1]))
        numbers: list[int] = scratch.text[:found].tolist()
        return numbers

    def _make_scratch(self) -> _Scratch:
        return _Scratch(len(self._literals))

    def _find(
        self, scratch: _Scratch, data: NDArray[np.uint8], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> int:
        budget = BUDGET * len(data) + FREE_WORK
        stamp = scratch.next_stamp(len(start))
        found: int = find_grams(self._passes, data, start, stop, scratch.row, stamp, budget)
        return found

    def _inside(self, chosen: NDArray[np.int64], sample: TextColumn | None) -> Iterator[Pass]:
        """Returns the passes that search for texts anywhere in a string."""
        if not len(chosen):
            return
        fold = self._fold(chosen)
        texts = TextBytes(self._texts.data, self._texts.start[chosen], self._texts.stop[chosen])
        costs = GramCosts(texts, sample, fold)
        for planned, part in _parts(planned_passes(texts, costs, fold), texts):
            yield self._pass(planned, chosen[part], fold, costs.of(planned.width))

    def _at_end(self, chosen: NDArray[np.int64]) -> Iterator[Pass]:
        """Returns the passes that examine the ends of strings."""
        texts = TextBytes(self._texts.data, self._texts.start[chosen], self._texts.stop[chosen])
        for planned, part in _parts(AT_END, texts):
            yield self._pass(planned, chosen[part], self._fold(chosen), None)

    def _fold(self, chosen: NDArray[np.int64]) -> int:
        return FOLD if self._folded[chosen].any() else 0

    def _pass(
        self, planned: PlannedPass, chosen: NDArray[np.int64], fold: int, costs: NDArray[np.float64] | None
    ) -> Pass:
        """Returns the record of a pass, see Pass. Without costs, the gram is the end of each text."""
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
        bits = min(MOST_BITS, max(LEAST_BITS, (BITS_PER_GRAM * grams.size - 1).bit_length()))
        hashes = (grams.ravel() * (MULTIPLIER << np.uint64(64 - 8 * width))) >> np.uint64(64 - bits)
        order = np.argsort(hashes, kind="stable")
        entries = self._entries(chosen, offset, fold)[order // stride]
        entries["offset"] += (order % stride).astype(np.int32)
        head_shift = bits - min(bits, (HEADS_PER_GRAM * grams.size).bit_length())
        table, heads = np.zeros(1 << (bits - 5), np.uint32), np.zeros((1 << (bits - head_shift)) + 1, np.int32)
        fill_tables(hashes[order], head_shift, table, heads)
        self._kept += [table, heads, entries]
        addresses = [each.ctypes.data for each in (table, heads, entries, data, starts)]
        return Pass(width, stride, at_end, fold, 64 - bits, head_shift, *addresses)

    def _entries(self, chosen: NDArray[np.int64], offset: NDArray[np.int64], fold: int) -> NDArray[Any]:
        """Returns one entry per text, see ENTRY."""
        data, starts, stops = self._texts
        start, length = starts[chosen], (stops - starts)[chosen]
        entries = np.zeros(len(chosen), ENTRY)
        entries["text"], entries["offset"], entries["length"] = chosen, offset, length
        free_bits = 64 - 8 * np.minimum(length, 8)
        flags = np.where((length > 16) | (fold != 0), EXACT, 0) + np.where(self._folded[chosen], FOLDED, 0)
        entries["flags"] = flags + (free_bits << FREE_BITS) + np.where(length > 8, -(1 << 31), 0)
        padded = np.concatenate([data, np.zeros(8, np.uint8)]) | np.uint8(fold & 0xFF)
        for place in range(8):
            shift = np.uint64(8 * place)
            entries["first"] |= np.where(place < length, padded[start + place], 0).astype(np.uint64) << shift
            entries["last"] |= np.where(length > 8, padded[start + length - 8 + place], 0).astype(np.uint64) << shift
        return entries

    def _found_by_automaton(self, strings: TextColumn) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns pairs of a string and a text, found by an automaton of the lower-case texts. Its time does not depend on what the texts
        have in common."""
        if self._automaton is None:
            self._automaton = TextAutomaton(self._literals)
        return self._automaton.find(strings)


def _parts(passes: Sequence[PlannedPass], texts: TextBytes) -> Iterator[tuple[PlannedPass, NDArray[np.int64]]]:
    """Returns each pass that has texts, with these."""
    number = np.searchsorted([each.least for each in passes], texts.stop - texts.start, side="right") - 1
    for place in np.unique(number).tolist():
        yield passes[place], np.flatnonzero(number == place)
