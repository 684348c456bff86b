"""Reads events from Python dictionaries. A bad event is reported by its position; the others are read.

Values are collected by attribute, and then all values of an attribute are converted at once (value_column.py). If the relevant attributes
are known, only they are looked up; otherwise every event is traversed and checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import EventError
from ray_pubsub.model.arguments import is_unicode
from ray_pubsub.model.attribute_tree import AttributeNode, AttributeTree
from ray_pubsub.model.dicts.nested_event import read_nested
from ray_pubsub.model.dicts.sparse_dicts import sparse_lanes
from ray_pubsub.model.dicts.value_column import Rows, lanes_of_values
from ray_pubsub.model.event_batch import EventBatch, Lane, without_bad
from ray_pubsub.model.id_column import ids_of
from ray_pubsub.model.problems import Problems
from ray_pubsub.model.single_event import SingleEvent, read_flat, read_plain
from ray_pubsub.model.values import GIVEN_TWICE, READERS, TOO_DEEP, Value, ValueProblem, read_value
from ray_pubsub.settings import EVENT_DEPTH

__all__ = ["flatten", "from_dicts", "read_single"]

Event = Mapping[str, Any]
Gathered = dict[str, list[tuple[Rows, list[Any]]]]
"""For each attribute the places where it was found, mostly one: rows and values, None for absent values."""


def from_dicts(
    events: Sequence[Event],
    event_id: str | None = None,
    attributes: AttributeTree | None = None,
    *,
    strict: bool = True,
) -> EventBatch:
    """Returns the batch of a list of dictionaries. `event_id` names the key that holds each event's id. Only `attributes` are read, or
    all if it is None. `strict` has the meaning that it has in events.read_events."""
    scope = None if attributes is None else attributes.scope
    if len(events) == 1 and event_id is None:
        try:
            return read_single(events[0], attributes, strict=strict)
        except EventError as error:
            return EventBatch(0, [], ids_of([0]), np.empty(0, dtype=np.int64), [error.at(0)], scope)
    problems = Problems(strict)
    ids: NDArray[Any] = np.arange(len(events)) if event_id is None else _ids(events, event_id, problems)
    places: Rows = None
    chosen = events
    plain = set(map(type, events)) <= {dict}
    if not plain:
        chosen, places = _dictionaries(events, problems)
    size = len(events)
    sparse = plain and attributes is not None and _is_sparse(events, attributes.root)
    found = sparse_lanes(events, attributes, problems) if sparse and attributes is not None else None
    if found is not None:
        lanes = found
    else:
        if attributes is None:
            gathered = _all_values(chosen, places, problems)
        else:
            gathering = _Gathering(attributes, problems)
            gathering.gather(chosen, places, None, 0)
            gathered = gathering.found
        lanes = [lane for name, places_ in gathered.items() for lane in _lanes(name, places_, size, problems)]
    lanes, positions, errors = without_bad(lanes, len(events), problems)
    size = len(events) if positions is None else len(positions)
    return EventBatch(size, lanes, ids, positions, errors, scope, warnings=problems.warnings())


def flatten(
    event: Event, attributes: AttributeTree | None = None, left_out: list[EventError] | None = None
) -> dict[str, Value]:
    """Returns the values by attribute, with nested dictionaries joined with dots and absent values left out. Raises EventError. With
    `left_out`, what cannot be used is absent too, and its error is added there."""
    if not isinstance(event, Mapping):
        raise EventError(None, NO_DICT.format(type(event).__name__))
    values = _Values(strict=left_out is None)
    if attributes is None:
        _flatten(event, "", values, 0)
    else:
        _flatten_known(event, None, attributes, values, 0)
    if left_out is not None:
        left_out += values.errors()
    return values.found


NO_DICT = "an event is a dict, not {}"
NO_NAME = "an attribute's name is a str, not {}"
MOST_TOO_DEEP = 16
"""The dictionaries of one event that are left out because they are nested too deeply. An event with more is refused: walking through one
that holds itself twice would not end."""


class _Values:
    """The values of one event, and what is left out of it. If `strict`, nothing is: the reason is raised."""

    def __init__(self, strict: bool) -> None:
        self.found: dict[str, Value] = {}
        self._strict = strict
        self._unusable: dict[str, str] = {}
        self._unread: list[EventError] = []

    def put(self, attribute: str, raw: Any) -> None:
        value, reason = None, ""
        try:
            value = read_value(raw)
        except ValueProblem as problem:
            reason = str(problem)
        if value is None and not reason:
            return
        if attribute in self.found or attribute in self._unusable:
            reason = GIVEN_TWICE
        if value is not None and not reason:
            self.found[attribute] = value
            return
        if self._strict:
            raise EventError(attribute, reason)
        self.found.pop(attribute, None)
        self._unusable[attribute] = reason

    def leave_out(self, name: str, reason: str) -> None:
        """Records what has no name or is nested too deeply."""
        if self._strict or len(self._unread) == MOST_TOO_DEEP:
            raise EventError(name, reason)
        self._unread.append(EventError(name, reason, 0))

    def errors(self) -> list[EventError]:
        return [EventError(*unusable, 0) for unusable in self._unusable.items()] + self._unread


def _flatten(event: Mapping[Any, Any], prefix: str, values: _Values, depth: int) -> None:
    if depth > EVENT_DEPTH:
        values.leave_out(_shown(prefix), TOO_DEEP)
        return
    for name, raw in event.items():
        attribute = f"{prefix}{name}"
        if not isinstance(name, str):
            values.leave_out(attribute, NO_NAME.format(type(name).__name__))
        elif type(raw) not in READERS and isinstance(raw, Mapping):
            _flatten(raw, attribute + ".", values, depth + 1)
        else:
            values.put(attribute, raw)


def _flatten_known(event: Event, prefix: str | None, attributes: AttributeTree, values: _Values, depth: int) -> None:
    if depth > EVENT_DEPTH:
        values.leave_out(_shown(prefix), TOO_DEEP)
        return
    node = attributes.node(prefix)
    for name, raw in event.items():
        attribute, inner = node.attributes.get(name), node.prefixes.get(name)
        if attribute is None and inner is None:
            continue
        if type(raw) not in READERS and isinstance(raw, Mapping):
            if inner is not None:
                _flatten_known(raw, inner, attributes, values, depth + 1)
        elif attribute is not None:
            values.put(attribute, raw)


def read_single(event: Event, attributes: AttributeTree | None, *, strict: bool = True) -> SingleEvent:
    """Returns a batch of one event. Raises EventError. `strict` has the meaning that it has in events.read_events."""
    left_out: list[EventError] | None = None if strict else []
    if attributes is not None and isinstance(event, Mapping):
        if not attributes.root.prefixes:
            return read_flat(event, attributes, left_out)
        nested = read_nested(event, attributes, left_out)
        if nested is not None:
            return nested
    elif type(event) is dict:
        plain = read_plain(event)
        if plain is not None:
            return plain
    scope = None if attributes is None else attributes.scope
    values = flatten(event, attributes, left_out)
    single = SingleEvent(
        list(values), [int(value.kind) for value in values.values()], [value.plain for value in values.values()], scope
    )
    single.warnings = left_out or []
    return single


# ------------------------------------------------------------------------------------------------------- many dictionaries


def _ids(events: Sequence[Any], event_id: str, problems: Problems) -> NDArray[Any]:
    ids: list[Any] = []
    for row, event in enumerate(events):
        identity = event.get(event_id) if isinstance(event, Mapping) else None
        if isinstance(identity, np.integer) and identity.dtype.kind in "iu":  # numpy counts time spans as integers too
            identity = int(identity)
        if isinstance(event, Mapping) and (isinstance(identity, bool) or not isinstance(identity, str | int)):
            kind = type(identity).__name__
            reason = (
                f"has no {event_id!r}, its id" if identity is None else f"an event's id is a str or an int, not {kind}"
            )
            problems[row], identity = (event_id, reason), None
        elif isinstance(identity, str) and not is_unicode(identity):
            problems[row] = (event_id, "an event's id must be valid Unicode")
            identity = None
        ids.append(identity)
    return ids_of(ids)


def _dictionaries(events: Sequence[Any], problems: Problems) -> tuple[Sequence[Event], Rows]:
    """Returns the events that are dictionaries, and their rows unless all are. The others get a problem."""
    rows = [row for row, event in enumerate(events) if isinstance(event, Mapping)]
    if len(rows) == len(events):
        return events, None
    for row in set(range(len(events))).difference(rows):
        problems.setdefault(row, (None, NO_DICT.format(type(events[row]).__name__)))
    return [events[row] for row in rows], np.array(rows, dtype=np.int32)


def _all_values(events: Sequence[Event], rows: Rows, problems: Problems) -> Gathered:
    """Collects every attribute of every event that has no problem yet."""
    walk = _Walk(problems)
    for place, event in enumerate(events):
        row = place if rows is None else int(rows[place])
        if row not in problems:
            try:
                walk.through(event, row)
            except EventError as error:
                problems[row] = (error.attribute, error.reason)
    return {name: [(np.array(rows_, dtype=np.int32), values)] for name, (rows_, values) in walk.found.items()}


class _Walk:
    """Collects the values of all attributes, event by event."""

    def __init__(self, problems: Problems) -> None:
        self.found: dict[str, tuple[list[int], list[Any]]] = {}
        self._problems = problems
        self._row = self._left_out = 0

    def through(self, event: Event, row: int) -> None:
        """Collects the values of one event. Raises EventError if it is refused."""
        self._row, self._left_out = row, 0
        self._into(event, "", 0)

    def _into(self, event: Mapping[Any, Any], prefix: str, depth: int) -> None:
        if depth > EVENT_DEPTH:
            self._leave_out(_shown(prefix), TOO_DEEP)
            return
        found, row = self.found, self._row
        for name, raw in event.items():
            if not isinstance(name, str):
                self._leave_out(f"{prefix}{name}", NO_NAME.format(type(name).__name__))
                continue
            attribute = prefix + name if prefix else name
            if type(raw) not in READERS and isinstance(raw, Mapping):
                self._into(raw, attribute + ".", depth + 1)
                continue
            cells = found.get(attribute)
            if cells is None:
                cells = found[attribute] = ([], [])
            cells[0].append(row)
            cells[1].append(raw)

    def _leave_out(self, name: str, reason: str) -> None:
        if self._problems.strict or self._left_out == MOST_TOO_DEEP:
            raise EventError(name, reason)
        self._left_out += 1
        self._problems.unusable(self._row, name, reason)


class _Gathering:
    """Collects the values of known attributes, level by level: those of all events, then those nested in them."""

    def __init__(self, attributes: AttributeTree, problems: Problems) -> None:
        self._attributes = attributes
        self._problems = problems
        self.found: Gathered = {}

    def gather(self, events: Sequence[Event], rows: Rows, prefix: str | None, depth: int) -> None:
        if depth > EVENT_DEPTH:
            for place in range(len(events)):
                self._problems.unusable(place if rows is None else int(rows[place]), _shown(prefix), TOO_DEEP)
            return
        node = self._attributes.node(prefix)
        nested: dict[str, tuple[list[int], list[Any]]] = {}
        if _is_sparse(events, node):
            self._by_event(events, rows, node, nested)
        else:
            self._by_key(events, rows, node, nested)
        for inner, (places, values) in nested.items():
            chosen = np.array(places, dtype=np.int32)
            self.gather(values, chosen if rows is None else rows[chosen], inner, depth + 1)

    def _by_key(
        self, events: Sequence[Event], rows: Rows, node: AttributeNode, nested: dict[str, tuple[list[int], list[Any]]]
    ) -> None:
        plain = set(map(type, events)) <= {dict}
        for key in dict.fromkeys([*node.attributes, *node.prefixes]):
            values = _column(events, key, plain)
            attribute, inner = node.attributes.get(key), node.prefixes.get(key)
            if attribute is not None:
                self.found.setdefault(attribute, []).append((rows, values))
            if inner is not None:
                places = [place for place, value in enumerate(values) if _is_nested(value)]
                if places:
                    nested[inner] = (places, [values[place] for place in places])

    def _by_event(
        self, events: Sequence[Event], rows: Rows, node: AttributeNode, nested: dict[str, tuple[list[int], list[Any]]]
    ) -> None:
        found: dict[str, tuple[list[int], list[Any]]] = {}
        attributes, prefixes = node.attributes, node.prefixes
        for place, event in enumerate(events):
            for key, raw in event.items():
                name = attributes.get(key)
                if name is not None:
                    cells = found.get(name)
                    if cells is None:
                        cells = found[name] = ([], [])
                    cells[0].append(place)
                    cells[1].append(raw)
                if prefixes and key in prefixes and _is_nested(raw):
                    cells = nested.setdefault(prefixes[key], ([], []))
                    cells[0].append(place)
                    cells[1].append(raw)
        for name, (places, values) in found.items():
            mine: Rows = None
            if len(places) < len(events):
                mine = np.array(places, dtype=np.int32)
            self.found.setdefault(name, []).append((_of_rows(rows, mine), values))


def _is_sparse(events: Sequence[Event], node: AttributeNode) -> bool:
    """Returns whether there are more relevant keys than an event has, judged by three events."""
    width = max(len(events[place]) for place in (0, len(events) // 2, -1)) if len(events) else 0
    return len(node.attributes) + len(node.prefixes) > width


def _is_nested(raw: Any) -> bool:
    return type(raw) is dict or (type(raw) not in READERS and isinstance(raw, Mapping))


def _of_rows(rows: Rows, places: Rows) -> Rows:
    return rows if places is None else places if rows is None else rows[places]


def _column(events: Sequence[Event], key: str, plain: bool) -> list[Any]:
    """Returns the value of a key in every event, None where it is absent."""
    if plain:
        try:
            return [event[key] for event in events]  # takes half the time of `get`
        except KeyError:
            pass
    return [event.get(key) for event in events]


def _lanes(attribute: str, places: list[tuple[Rows, list[Any]]], size: int, problems: Problems) -> list[Lane]:
    """Returns the lanes of an attribute that was found in one place, or in several: with a dot in its name here and nested there."""
    rows, values = places[0]
    if "." in attribute and (len(places) > 1 or (rows is not None and (rows[1:] == rows[:-1]).any())):
        rows, values = _one_value_per_row(attribute, places, size, problems)
    return lanes_of_values(attribute, values, None if rows is not None and len(rows) == size else rows, problems)


def _one_value_per_row(
    attribute: str, places: list[tuple[Rows, list[Any]]], size: int, problems: Problems
) -> tuple[Rows, list[Any]]:
    """Returns one value per row. A row that has two gets a problem instead."""
    found: dict[int, Any] = {}
    twice: set[int] = set()
    for rows, values in places:
        for row, raw in zip(range(size) if rows is None else rows.tolist(), values, strict=True):
            if _is_absent(raw):
                continue
            if row in found:
                twice.add(row)
            found[row] = raw
    for row in twice:
        problems.unusable(row, attribute, GIVEN_TWICE)
    ordered = sorted(found.keys() - twice)
    return np.array(ordered, dtype=np.int32), [found[row] for row in ordered]


def _is_absent(raw: Any) -> bool:
    try:
        return _is_nested(raw) or read_value(raw) is None
    except ValueProblem:
        return False


def _shown(prefix: str | None) -> str:
    """Returns the name of a dictionary that is nested too deeply."""
    return (prefix or "").removesuffix(".")[:SHOWN_NAME]


SHOWN_NAME = 100
