"""Sets of values that test records cannot express: absence, ranges of strings, patterns.

They are stored in columns, because rules with patterns have hundreds of thousands of sets. A set admits the values in its pieces, which
are test records in ascending order (kind by kind; absence counts as a kind and is the last). Of the strings, it admits only those that
match all its patterns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.opaque.pattern_list import key_of_leaf, leaf_of_key, moved_keys, texts_of_keys
from ray_pubsub.columns.test_records import ABSENCE, RECORD, TEST, Form, Side, TestRecord, piece_record
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.columns.opaque_sets import NEGATED_PATTERN, distinct_sets, gather_runs, sort_runs, take_records
from ray_pubsub.kernels.columns.runs import distinct_pairs
from ray_pubsub.language.pattern_test import ValueTest, value_test
from ray_pubsub.language.value_set import ABOVE_ALL, BELOW_ALL, Cut, PatternTest, ValueSet
from ray_pubsub.model.values import Kind

__all__ = ["OpaqueSets"]

Longs = NDArray[np.int64]


class OpaqueSets:
    """Set k is on attributes[k]; it has the pieces[piece_offsets[k]:piece_offsets[k + 1]] and the
    patterns[pattern_offsets[k]:pattern_offsets[k + 1]], which are keys (pattern_list.py), ascending. The sets only grow, so readers can
    use those that existed when they began."""

    def __init__(
        self, attributes: NDArray[np.int32], piece_offsets: Longs, pieces: NDArray[Any], pattern_offsets: Longs, patterns: Longs
    ) -> None:  # fmt: skip
        self._count = len(attributes)
        self._attributes, self._piece_offsets, self._pieces = attributes, piece_offsets, pieces
        self._pattern_offsets, self._patterns = pattern_offsets, patterns
        self._numbers: dict[tuple[int, ValueSet], int] = {}
        """The numbers of sets that were added one by one."""
        self._value_sets: dict[int, ValueSet] = {}
        self._tests: list[tuple[str, ValueTest]] = []

    @classmethod
    def empty(cls) -> OpaqueSets:
        none = np.empty(0, np.int64)
        return cls(np.empty(0, np.int32), np.zeros(1, np.int64), np.empty(0, TEST), np.zeros(1, np.int64), none)

    def __len__(self) -> int:
        return self._count

    @property
    def attributes(self) -> NDArray[np.int32]:
        return self._attributes[: self._count]

    @property
    def piece_offsets(self) -> Longs:
        return self._piece_offsets[: self._count + 1]

    @property
    def pieces(self) -> NDArray[Any]:
        return self._pieces[: self._piece_offsets[self._count]]

    @property
    def pattern_offsets(self) -> Longs:
        return self._pattern_offsets[: self._count + 1]

    @property
    def patterns(self) -> Longs:
        return self._patterns[: self._pattern_offsets[self._count]]

    def add(self, attribute: int, allowed: ValueSet, vocabulary: Vocabulary) -> int:
        """Returns the number of a set, adding the set if it is new."""
        number = self._numbers.get((attribute, allowed))
        if number is None:
            number = self._count
            pieces = [
                piece_record(0, Form.INTERVAL, kind, enter, leave, vocabulary)
                for kind in Kind
                for enter, leave in zip(allowed.cuts(kind)[::2], allowed.cuts(kind)[1::2], strict=True)
            ]
            if allowed.absent:
                pieces.append((0, Form.INTERVAL, ABSENCE, Side.NONE, Side.NONE, 0, 0.0, 0, 0.0))
            patterns = sorted(key_of_leaf(pattern.leaf, vocabulary) for pattern in allowed.patterns)
            self._append(attribute, pieces, patterns)
            self._value_sets[number] = allowed
            self._numbers[attribute, allowed] = number
        return number

    def value_set(self, number: int, vocabulary: Vocabulary) -> ValueSet:
        """Returns a set as the language's ValueSet, created on demand."""
        found = self._value_sets.get(number)
        if found is None:
            found = self._value_sets[number] = self._value_set(number, vocabulary)
        return found

    def tests(self, count: int, vocabulary: Vocabulary) -> list[tuple[str, ValueTest]]:
        """Returns at least the first `count` sets as attributes and functions of their values, created once."""
        tests = self._tests
        if len(tests) < count:
            # Replaced, not extended: another thread may be reading the list, or extending it too.
            names, attributes = vocabulary.attributes.texts, self._attributes[:count].tolist()
            more = range(len(tests), count)
            tests = self._tests = tests + [
                (names[attributes[number]], value_test(self.value_set(number, vocabulary))) for number in more
            ]
        return tests

    def has_patterns(self, number: int) -> bool:
        return bool(self._pattern_offsets[number + 1] > self._pattern_offsets[number])

    def is_larger(self, number: int, pieces: int) -> bool:
        """Returns whether a set has more pieces than `pieces`."""
        return bool(self._piece_offsets[number + 1] - self._piece_offsets[number] > pieces)

    def pattern_count(self) -> int:
        """Returns the number of distinct patterns per attribute, summed. A pattern and its negation count once."""
        attributes = np.repeat(self.attributes, np.diff(self.pattern_offsets))
        return len(distinct_pairs(attributes, self.patterns & ~NEGATED_PATTERN)[1])

    def first(self, count: int) -> OpaqueSets:
        """Returns the first `count` sets, in the same memory."""
        found = OpaqueSets(
            self._attributes[:count],
            self._piece_offsets[: count + 1],
            self._pieces,
            self._pattern_offsets[: count + 1],
            self._patterns,
        )
        found._value_sets = self._value_sets
        return found

    def take(self, numbers: Longs) -> OpaqueSets:
        """Returns these sets, in this order."""
        pieces, piece_offsets = gather_runs(self.piece_offsets, numbers)
        patterns, pattern_offsets = gather_runs(self.pattern_offsets, numbers)
        records = take_records(self.pieces, pieces)
        return OpaqueSets(self.attributes[numbers], piece_offsets, records, pattern_offsets, self.patterns[patterns])

    def strings(self) -> Longs:
        """Returns the numbers of all strings in pieces and patterns."""
        pieces = self.pieces[self.pieces["kind"] == Kind.STRING]
        lows = pieces["low_whole"][pieces["low_side"] != Side.NONE]
        highs = pieces["high_whole"][pieces["high_side"] != Side.NONE]
        return np.concatenate([lows, highs, texts_of_keys(self.patterns)])

    def moved(self, attributes: NDArray[np.int32], strings: Longs) -> OpaqueSets:
        """Returns the same sets in another vocabulary, in which attribute a is attributes[a] and string s is strings[s]."""
        pieces = self.pieces.copy()
        is_string = pieces["kind"] == Kind.STRING
        for end in ("low", "high"):
            chosen = is_string & (pieces[f"{end}_side"] != Side.NONE)
            pieces[f"{end}_whole"][chosen] = strings[pieces[f"{end}_whole"][chosen]]
        keys = moved_keys(self.patterns, strings)
        found = OpaqueSets(attributes[self.attributes], self.piece_offsets, pieces, self.pattern_offsets, keys)
        found._sort_patterns()
        found._value_sets = self._value_sets
        return found

    def extend(self, other: OpaqueSets) -> Longs:
        """Adds all sets of another object and returns the numbers that they have here. Equal sets share a number."""
        together = OpaqueSets.joined([self, other])
        which, first = together.distinct()
        new = first[np.searchsorted(first, len(self)) :]
        chosen = together.take(new)
        count, before = self._count, len(first) - len(new)
        numbers = np.where(which < before, first[which], which - before + count)
        pieces, patterns = self._piece_offsets[count], self._pattern_offsets[count]
        self._pieces = _with(self._pieces, int(pieces), chosen.pieces)
        self._patterns = _with(self._patterns, int(patterns), chosen.patterns)
        self._piece_offsets = _with(self._piece_offsets, count + 1, chosen.piece_offsets[1:] + pieces)
        self._pattern_offsets = _with(self._pattern_offsets, count + 1, chosen.pattern_offsets[1:] + patterns)
        self._attributes = _with(self._attributes, count, chosen.attributes)
        self._count = count + len(new)
        found: Longs = numbers[len(together) - len(other) :]
        return found

    @staticmethod
    def joined(parts: list[OpaqueSets]) -> OpaqueSets:
        """Concatenates the sets."""
        return OpaqueSets(
            np.concatenate([part.attributes for part in parts]),
            _offsets([part.piece_offsets for part in parts]),
            np.concatenate([part.pieces for part in parts]),
            _offsets([part.pattern_offsets for part in parts]),
            np.concatenate([part.patterns for part in parts]),
        )

    def distinct(self) -> tuple[Longs, Longs]:
        """Returns each set's position among the distinct sets, and the first occurrence of each distinct set, ascending."""
        words = np.ascontiguousarray(self.pieces).view(np.int64).reshape(-1, TEST.itemsize // 8)
        found: tuple[Longs, Longs] = distinct_sets(
            self.attributes, self.piece_offsets, words, self.pattern_offsets, self.patterns
        )
        return found

    def _append(self, attribute: int, pieces: list[TestRecord], patterns: list[int]) -> None:
        """Appends a set. Arrays are replaced by larger ones or written beyond their end, so what readers see never changes."""
        count = self._count
        first, start = int(self._piece_offsets[count]), int(self._pattern_offsets[count])
        self._pieces = _room(self._pieces, first + len(pieces))
        for place, piece in enumerate(pieces, first):
            RECORD.pack_into(self._pieces.data, place * TEST.itemsize, *piece)
        self._patterns = _with(self._patterns, start, patterns)
        self._piece_offsets = _with(self._piece_offsets, count + 1, [first + len(pieces)])
        self._pattern_offsets = _with(self._pattern_offsets, count + 1, [start + len(patterns)])
        self._attributes = _with(self._attributes, count, [attribute])
        self._count = count + 1

    def _sort_patterns(self) -> None:
        """Sorts the patterns of each set again: another vocabulary numbers texts in another order."""
        sort_runs(self.pattern_offsets, self._patterns)

    def _value_set(self, number: int, vocabulary: Vocabulary) -> ValueSet:
        cuts: dict[int, list[Cut]] = {kind: [] for kind in (*Kind, ABSENCE)}
        first, last = self._piece_offsets[number : number + 2].tolist()
        for _, _, kind, low_side, high_side, low, low_rest, high, high_rest in self._pieces[first:last].tolist():
            cuts[kind].append(BELOW_ALL if low_side == Side.NONE else _cut(kind, low, low_rest, low_side, vocabulary))
            cuts[kind].append(
                ABOVE_ALL if high_side == Side.NONE else _cut(kind, high, high_rest, high_side, vocabulary)
            )
        numbers, strings, booleans, timestamps, lists = (tuple(cuts[kind]) for kind in Kind)
        start, stop = self._pattern_offsets[number : number + 2].tolist()
        attribute = int(self._attributes[number])
        patterns = (PatternTest(leaf_of_key(key, attribute, vocabulary)) for key in self._patterns[start:stop].tolist())
        return ValueSet(bool(cuts[ABSENCE]), numbers, strings, booleans, timestamps, lists, frozenset(patterns))


def _cut(kind: int, whole: int, rest: float, side: int, vocabulary: Vocabulary) -> Cut:
    value: Any = whole
    if kind == Kind.STRING:
        value = vocabulary.strings.texts[whole]
    elif kind == Kind.BOOLEAN:
        value = bool(whole)
    elif rest != 0:
        value = rest if abs(rest) >= 2.0**63 else whole + rest
    return (0, value, side)


def _offsets(parts: list[Longs]) -> Longs:
    found = np.zeros(sum(len(part) - 1 for part in parts) + 1, np.int64)
    np.cumsum(np.concatenate([np.diff(part) for part in parts]), out=found[1:])
    return found


def _room(array: NDArray[Any], needed: int) -> NDArray[Any]:
    if needed <= len(array):
        return array
    larger = np.zeros(max(needed, 2 * len(array), 16), array.dtype)
    larger[: len(array)] = array
    return larger


def _with(array: NDArray[Any], place: int, values: Any) -> NDArray[Any]:
    """Returns the array, or a larger copy, with the values written from `place` on."""
    array = _room(array, place + len(values))
    array[place : place + len(values)] = values
    return array
