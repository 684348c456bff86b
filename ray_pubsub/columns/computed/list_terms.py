"""Functions of whole lists that need no Python per list: the number of elements, and the least and the largest of one kind."""

from __future__ import annotations

import numpy as np

from ray_pubsub.language.building.term_kinds import ELEMENT_KINDS
from ray_pubsub.language.terms import Attribute, Call, Term
from ray_pubsub.language.tree import Operand
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.values import Kind

__all__ = ["list_term_lanes"]


def list_term_lanes(name: str, term: Term, lanes: dict[str, list[Lane]]) -> list[Lane] | None:
    """Returns the lanes of `cardinality(list)`, `list_min(list, 'kind')` or `list_max(list, 'kind')`; None for any other term."""
    if not isinstance(term, Call) or not isinstance(term.arguments[0] if term.arguments else None, Attribute):
        return None
    subject = term.arguments[0]
    assert isinstance(subject, Attribute)
    lane = next((lane for lane in lanes.get(subject.name, []) if lane.kind == Kind.LIST), None)
    if term.function == "cardinality":
        if lane is None:
            return []
        assert lane.lists is not None
        return [Lane(name, Kind.NUMBER, lane.rows, np.diff(lane.lists.offsets)[lane.whole])]
    if term.function in ("list_min", "list_max") and len(term.arguments) == 2:
        kind = term.arguments[1]
        if isinstance(kind, Operand) and kind.plain in ELEMENT_KINDS:
            return [] if lane is None else _extreme(name, lane, ELEMENT_KINDS[kind.plain], term.function == "list_max")
    return None


def _extreme(name: str, lane: Lane, kind: Kind, largest: bool) -> list[Lane]:
    """Returns one element of each list: the least or the largest of its elements of this kind."""
    assert lane.lists is not None
    elements = next((each for each in lane.lists.elements.lanes if each.kind == kind and each.attribute == ""), None)
    if elements is None:
        return []
    owner = lane.lists.owners()
    mine = owner if elements.rows is None else owner[elements.rows]
    if kind == Kind.STRING:
        assert elements.strings is not None
        distinct = sorted(set(elements.strings))
        rank = {text: number for number, text in enumerate(distinct)}
        key = np.array([rank[text] for text in elements.strings], np.int64)[elements.whole]
        order = np.lexsort((key, mine))
    else:
        rest = np.zeros(len(elements)) if elements.rest is None else elements.rest
        order = np.lexsort((rest, elements.whole, mine))
    ordered = mine[order]
    edge = np.ones(len(ordered), bool)
    if largest:
        edge[:-1] = ordered[1:] != ordered[:-1]
    else:
        edge[1:] = ordered[1:] != ordered[:-1]
    place_of_list = np.full(len(lane.lists), -1, np.int64)
    place_of_list[ordered[edge]] = order[edge]
    place = place_of_list[lane.whole]
    rows = np.arange(len(lane), dtype=np.int32) if lane.rows is None else lane.rows
    has = place >= 0
    chosen = place[has]
    whole, rest_ = elements.whole[chosen], None if elements.rest is None else elements.rest[chosen]
    return [Lane(name, kind, rows[has], whole, rest_, elements.strings)] if len(chosen) else []
