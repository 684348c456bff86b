"""Compares a value of an event with the elements of one of its lists, in columns: `list_contains(tags, name)`, `price < all(prices)`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.language.terms import Attribute, Call, Term
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.values import Kind

__all__ = ["list_comparison_lanes"]

SYMBOLS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def list_comparison_lanes(name: str, term: Term, lanes: dict[str, list[Lane]], size: int) -> list[Lane] | None:
    """Returns the lanes of such a term if both sides are attributes; None for any other term."""
    parts = _parts(term)
    if parts is None:
        return None
    wanted, symbol, quantifier, subject = parts
    lane = next((lane for lane in lanes.get(subject, []) if lane.kind == Kind.LIST), None)
    if lane is None:
        return []
    answer = np.full(size, -1, np.int64)
    for values in lanes.get(wanted, []):
        if values.kind != Kind.LIST:
            _answer(answer, lane, values, SYMBOLS[symbol], quantifier == "any", size)
    known = np.flatnonzero(answer >= 0)
    return [Lane(name, Kind.BOOLEAN, known.astype(np.int32), answer[known])] if len(known) else []


def _parts(term: Term) -> tuple[str, str, str, str] | None:
    """Returns value, symbol, quantifier and list."""
    if not isinstance(term, Call) or len(term.arguments) != 2:
        return None
    first, second = term.arguments
    if not isinstance(first, Attribute) or not isinstance(second, Attribute):
        return None
    if term.function == "list_contains":
        return second.name, "=", "any", first.name
    symbol, _, quantifier = term.function.partition(" ")
    return (first.name, symbol, quantifier, second.name) if quantifier in ("any", "all") else None


def _answer(
    answer: NDArray[np.int64], lane: Lane, values: Lane, compare: Callable[[Any, Any], Any], any_: bool, size: int
) -> None:
    """Writes 0 or 1 for each row that has both a list and one of these values."""
    assert lane.lists is not None
    place_of_row = np.full(size, -1, np.int64)
    place_of_row[slice(None) if values.rows is None else values.rows] = np.arange(len(values))
    rows = np.arange(len(lane)) if lane.rows is None else lane.rows
    place_of_list = place_of_row[rows]
    has = place_of_list >= 0
    differs = np.zeros(len(lane), bool)  # whether an element changes the answer of an empty list
    elements = next(
        (each for each in lane.lists.elements.lanes if each.kind == values.kind and each.attribute == ""), None
    )
    if elements is not None:
        owner = lane.lists.owners()
        owner = owner if elements.rows is None else owner[elements.rows]
        chosen = np.flatnonzero(has[owner])
        left, right = _keys(values, place_of_list[owner[chosen]], elements, chosen)
        differs[owner[chosen[compare(left, right) == any_]]] = True
    answer[rows[has]] = differs[has] == any_


def _keys(values: Lane, places: NDArray[np.int64], elements: Lane, others: NDArray[np.int64]) -> tuple[Any, Any]:
    """Returns numbers that sort like the values, for cells of one lane and of another."""
    if values.kind == Kind.STRING:
        assert values.strings is not None and elements.strings is not None
        mine, theirs = values.strings.tolist(), elements.strings.tolist()
        rank = {text: number for number, text in enumerate(sorted({*mine, *theirs}))}
        first, second = (np.array([rank[text] for text in texts], np.int64) for texts in (mine, theirs))
        return first[values.whole[places]], second[elements.whole[others]]
    if values.rest is None and elements.rest is None:
        return values.whole[places], elements.whole[others]
    pairs = np.empty(len(places) + len(others), [("whole", np.int64), ("rest", np.float64)])
    for part, lane, cells in (
        (slice(None, len(places)), values, places),
        (slice(len(places), None), elements, others),
    ):
        pairs["whole"][part] = lane.whole[cells]
        pairs["rest"][part] = 0.0 if lane.rest is None else lane.rest[cells] + 0.0  # + 0.0 turns -0.0 into 0.0
    _, rank_ = np.unique(pairs, return_inverse=True)
    return rank_[: len(places)], rank_[len(places) :]
