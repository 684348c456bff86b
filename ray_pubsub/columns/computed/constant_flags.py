"""The constants that subscriptions look for in one list, and the flags that each constant raises.

The elements of a batch are looked up in columns: strings in a hash table, whole numbers by binary search. Constants added since the table
was built are in a dictionary, and single events use dictionaries only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.string_hashes import distinct_of, hashes_of
from ray_pubsub.kernels.columns.strings import build_string_table, equal_operands
from ray_pubsub.model.event_batch import Lane, split_number
from ray_pubsub.model.text_column import TextColumn
from ray_pubsub.model.values import Kind, Value

__all__ = ["ConstantFlags"]

FEW, SHARE = 64, 8
"""The table is rebuilt when more than FEW constants were added, and more than 1/SHARE of those in the table."""
Constants = Mapping[tuple[Kind, Any], list[int]]
NONE: list[int] = []


class ConstantFlags:
    """Maps constants to flags. It only grows; one thread adds and settles, others may look up."""

    def __init__(self) -> None:
        self._every: dict[tuple[Kind, Any], list[int]] = {}
        self._parts: tuple[_Table, dict[tuple[Kind, Any], list[int]]] = (_Table({}), {})
        """The table, and the constants added after it was built."""
        self._built = 0
        self._added = 0

    def add(self, kind: Kind, plain: Any, number: int) -> None:
        """Adds a flag that a constant raises."""
        for constants in (self._every, self._parts[1]):
            constants.setdefault((kind, plain), []).append(number)
        self._added += 1

    def settle(self) -> None:
        """Rebuilds the table if enough constants were added."""
        if self._added > max(FEW, self._built // SHARE):
            self._built, self._added = self._built + self._added, 0
            self._parts = _Table(self._every), {}

    def of_element(self, element: Value) -> list[int]:
        """Returns the flags of one element."""
        return self._every.get(element, NONE)

    def of_lane(self, elements: Lane) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns pairs of a cell of the lane and a flag that it raises, cells ascending."""
        table, recent = self._parts
        cells, numbers = table.flags(elements)
        if not recent:
            return cells, numbers
        more_cells, more_numbers = _one_by_one(elements, recent, None)
        cells, numbers = np.concatenate([cells, more_cells]), np.concatenate([numbers, more_numbers])
        order = np.argsort(cells, kind="stable")
        return cells[order], numbers[order]


class _Table:
    """Immutable look-up table. Constant i raises the flags postings[starts[i]:starts[i + 1]]."""

    def __init__(self, constants: Constants) -> None:
        texts: list[str] = []
        wholes: dict[Kind, list[int]] = {}
        self._others: dict[tuple[Kind, Any], list[int]] = {}
        """Numbers with a fraction, or beyond 64 bits."""
        of_texts: list[list[int]] = []
        of_wholes: dict[Kind, list[list[int]]] = {}
        for (kind, plain), numbers in constants.items():
            if kind is Kind.STRING:
                texts.append(plain)
                of_texts.append(numbers)
                continue
            whole, rest = split_number(plain) if kind is Kind.NUMBER else (int(plain), 0.0)
            if rest:
                self._others[kind, plain] = list(numbers)
            else:
                wholes.setdefault(kind, []).append(whole)
                of_wholes.setdefault(kind, []).append(numbers)
        strings = TextColumn.encoded(texts)
        self._texts = strings.bytes
        self._slots = build_string_table(hashes_of(strings))
        self._of_texts = _postings(of_texts)
        self._wholes = {}
        for kind, found in wholes.items():
            keys = np.array(found, np.int64)
            order = np.argsort(keys, kind="stable")
            self._wholes[kind] = keys[order], _postings([of_wholes[kind][place] for place in order.tolist()])

    def flags(self, elements: Lane) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if elements.kind == Kind.STRING:
            assert elements.strings is not None
            strings = elements.strings
            numbers = equal_operands(*strings.bytes, hashes_of(strings), self._slots, *self._texts)
            return _spread(numbers[elements.whole], *self._of_texts)
        cells, found = np.empty(0, np.int64), np.empty(0, np.int64)
        if elements.kind in self._wholes:
            keys, postings = self._wholes[elements.kind]
            place = np.minimum(np.searchsorted(keys, elements.whole), len(keys) - 1)
            known = keys[place] == elements.whole
            if elements.rest is not None:
                known &= elements.rest == 0
            cells, found = _spread(np.where(known, place, -1), *postings)
        if elements.rest is None or not self._others:
            return cells, found
        more_cells, more = _one_by_one(elements, self._others, np.flatnonzero(elements.rest))
        cells = np.concatenate([cells, more_cells])
        order = np.argsort(cells, kind="stable")
        return cells[order], np.concatenate([found, more])[order]


def _postings(flags: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.cumsum([0, *map(len, flags)]), np.array([number for each in flags for number in each], np.int64)


def _spread(
    constant: NDArray[np.int64], starts: NDArray[np.int64], postings: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns cells and flags, pair by pair, of the cells that have a constant (not -1)."""
    cells = np.flatnonzero(constant >= 0)
    mine = constant[cells]
    count = starts[mine + 1] - starts[mine]
    if (count == 1).all():
        return cells, postings[starts[mine]]
    ends = np.cumsum(count)
    places = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts[mine] - ends + count, count)
    return np.repeat(cells, count), postings[places]


def _one_by_one(
    elements: Lane, constants: Constants, chosen: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the same from a dictionary, with one look-up per distinct string; for the chosen cells, or for all."""
    kind = elements.kind
    if kind == Kind.STRING:
        assert elements.strings is not None
        which, distinct = distinct_of(elements.strings)
        found = [constants.get((kind, text), NONE) for text in distinct]
        return _spread(which[elements.whole], *_postings(found))
    cells = np.arange(len(elements)) if chosen is None else chosen
    found = [constants.get((kind, elements.plain(cell)), NONE) for cell in cells.tolist()]
    place, numbers = _spread(np.arange(len(cells)), *_postings(found))
    return cells[place], numbers
