"""Computes sets of values that are not single records: ranges of strings, absence, patterns, and combinations of these.

Kernels do the work (kernels/texts/computed_sets.py). Python sorts the strings, and finds where the strings with a given prefix end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.opaque.opaque_sets import OpaqueSets
from ray_pubsub.columns.test_records import TEST, Form
from ray_pubsub.columns.texts.parsed_texts import ParsedTexts
from ray_pubsub.kernels.texts.computed_sets import EQUALITY, NO_SUCCESSOR, StringOrder, compute_sets, used_strings
from ray_pubsub.kernels.texts.cuts import CUT
from ray_pubsub.kernels.texts.normal_form import NODES, TESTS, Work
from ray_pubsub.kernels.texts.records import NOT_COMPUTED, ComputedSets, used_sets
from ray_pubsub.language.patterns import prefix_successor

__all__ = ["SetComputer", "SetList"]

EMPTY = np.empty(0, CUT), np.empty(0, TEST)
ORDERED, PREFIXED = 1, 2
LAST_PLAIN = "\ud000"
"""Characters before this one have a successor of their own; the general case is slower."""
UNKNOWN = -1


class SetList:
    """Collects the sets of many texts. Duplicates are removed once, at the end: comparing each portion with all earlier ones would be
    quadratic."""

    def __init__(self) -> None:
        self._parts: list[OpaqueSets] = []
        self._count = 0

    def add(self, sets: OpaqueSets) -> NDArray[np.int64]:
        """Adds sets and returns the numbers that they have from now on; equal sets among them share one."""
        which, first = sets.distinct()
        self._parts.append(sets if len(first) == len(sets) else sets.take(first))
        self._count += len(first)
        return which + (self._count - len(first))

    def joined(self, records: NDArray[np.void]) -> OpaqueSets:
        """Returns each set once, and updates the records to the final numbers."""
        if not self._parts:
            return OpaqueSets.empty()
        sets = OpaqueSets.joined(self._parts)
        if len(self._parts) > 1:
            which, first = sets.distinct()
            sets = sets.take(first)
            opaque = np.flatnonzero(records["form"] & Form.OPAQUE)
            records["low_whole"][opaque] = which[records["low_whole"][opaque]]
        return sets


class SetComputer:
    """Computes the sets that clauses of these texts test."""

    def __init__(self, parsed: ParsedTexts, sets: SetList, runs: bool) -> None:
        self._parsed, self._sets, self._runs = parsed, sets, runs
        self._strings = parsed.vocabulary.strings
        number = parsed.vocabulary.attributes.number
        self._attributes = np.array([number(name, parsed.terms.get(name)) for name in parsed.attributes], np.int32)
        self._prefix = np.full(len(self._strings), UNKNOWN, np.int64)
        self._prefix_end = np.zeros(len(self._strings), np.int64)
        """As in StringOrder, for all patterns requested so far."""

    def compute(self, work: Work) -> ComputedSets:
        """Returns the sets of the nodes of `work`."""
        used = used_sets(work.nodes, int(work.state[NODES]), work.found.tests, int(work.state[TESTS]), self._runs)
        if not used.any():
            number = np.full(len(used), NOT_COMPUTED, np.int64)
            return ComputedSets(number, np.zeros(1, np.int64), EMPTY[1], self._attributes)
        order = self._order(work, used)
        number, starts, records, *columns = compute_sets(
            self._parsed.columns, work, used, self._attributes, order, self._runs, EMPTY
        )
        opaque = np.flatnonzero(records["form"] == Form.OPAQUE)
        if len(opaque):
            records["low_whole"][opaque] = self._sets.add(OpaqueSets(*columns))[records["low_whole"][opaque]]
        return ComputedSets(number, starts, records, self._attributes)

    def _order(self, work: Work, used: NDArray[np.uint8]) -> StringOrder:
        strings = self._strings
        marks = np.zeros(len(self._prefix), np.uint8)
        used_strings(self._parsed.columns, work.nodes, used, marks)
        chosen = np.flatnonzero(marks & ORDERED)
        patterns = np.flatnonzero(marks & PREFIXED)
        if len(patterns):
            self._find_prefixes(patterns[self._prefix[patterns] == UNKNOWN].tolist())
            ends = self._prefix_end[patterns]
            chosen = np.unique(np.concatenate([chosen, self._prefix[patterns], ends[ends >= 0]]))
        number = np.array(sorted(chosen.tolist(), key=strings.texts.__getitem__), np.int64)
        rank = np.zeros(len(strings), np.int64)
        rank[number] = np.arange(len(number))
        return StringOrder(rank, number, self._prefix, self._prefix_end)

    def _find_prefixes(self, patterns: list[int]) -> None:
        """For each `like` that has wildcards only at its ends, finds the number of its prefix, and of the least string above all that
        have the prefix."""
        if not patterns:
            return
        strings = self._strings
        texts = [strings.texts[pattern] for pattern in patterns]
        prefixes = [text.rstrip("%") for text in texts]
        successors = [
            prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix and prefix[-1] < LAST_PLAIN else prefix_successor(prefix)
            for prefix in prefixes
        ]
        self._prefix[patterns] = strings.numbers(prefixes)
        ends = np.array(strings.numbers(successor or "" for successor in successors), np.int64)
        ends[[successor is None for successor in successors]] = NO_SUCCESSOR
        ends[[len(text) == len(prefix) for text, prefix in zip(texts, prefixes, strict=True)]] = EQUALITY
        self._prefix_end[patterns] = ends
