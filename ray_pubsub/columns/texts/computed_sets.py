"""Computes sets of values that are not single records: ranges of strings, absence, patterns, and combinations of these.

Kernels do the work (kernels/texts/computed_sets.py). Python sorts the strings.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.opaque.opaque_sets import OpaqueSets
from ray_pubsub.columns.test_records import TEST, Form
from ray_pubsub.columns.texts.parsed_texts import ParsedTexts
from ray_pubsub.kernels.texts.computed_sets import NodePlaces, SetRoom, compute_sets, used_strings
from ray_pubsub.kernels.texts.normal_form import NODES, TESTS, Work
from ray_pubsub.kernels.texts.predicate_cuts import StringOrder
from ray_pubsub.kernels.texts.records import NOT_COMPUTED, ComputedSets, used_sets

__all__ = ["SetComputer", "SetList"]

ORDERED, PREFIXED = 1, 2


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
        parsed.patterns.make_room()

    def compute(self, work: Work) -> ComputedSets:
        """Returns the sets of the nodes of `work`."""
        used, tested, alone = used_sets(
            work.nodes, int(work.state[NODES]), work.found.tests, int(work.state[TESTS]), self._runs
        )
        if not tested:
            number = np.full(len(used), NOT_COMPUTED, np.int64)
            return ComputedSets(number, np.zeros(1, np.int64), np.empty(0, TEST), self._attributes)
        order = self._order(work, used)
        number, starts, records, *columns = compute_sets(
            self._parsed.columns, work, used, self._attributes, order, self._runs,
            NodePlaces.of(len(used)), SetRoom.of(tested, alone, TEST),
        )  # fmt: skip
        opaque = np.flatnonzero(records["form"] == Form.OPAQUE)
        if len(opaque):
            records["low_whole"][opaque] = self._sets.add(OpaqueSets(*columns))[records["low_whole"][opaque]]
        return ComputedSets(number, starts, records, self._attributes)

    def _order(self, work: Work, used: NDArray[np.uint8]) -> StringOrder:
        strings, known = self._strings, self._parsed.patterns
        marks = np.zeros(len(strings), np.uint8)
        used_strings(self._parsed.columns, work.nodes, used, marks)
        chosen = np.flatnonzero(marks & ORDERED)
        patterns = np.flatnonzero(marks & PREFIXED)
        if len(patterns):
            known.find_prefixes(patterns)
            ends = known.prefix_end[patterns]
            chosen = np.unique(np.concatenate([chosen, known.prefix[patterns], ends[ends >= 0]]))
        number = np.array(sorted(chosen.tolist(), key=strings.texts.__getitem__), np.int64)
        rank = np.zeros(len(strings), np.int64)
        rank[number] = np.arange(len(number))
        return StringOrder(rank, number, known.prefix, known.prefix_end)
