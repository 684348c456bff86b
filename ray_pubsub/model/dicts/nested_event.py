"""Reads one event when attributes may be nested (`process.name` as one key, or inside `process`), without an object per value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray_pubsub.errors import EventError
from ray_pubsub.model.attribute_tree import AttributeNode, AttributeTree
from ray_pubsub.model.single_event import SPARSE, SingleEvent
from ray_pubsub.model.values import INT64_MAX, INT64_MIN, READERS, Kind, ValueProblem, read_value
from ray_pubsub.settings import EVENT_DEPTH

__all__ = ["read_nested"]

NUMBER, STRING, BOOLEAN = int(Kind.NUMBER), int(Kind.STRING), int(Kind.BOOLEAN)


def read_nested(
    event: Mapping[str, Any], attributes: AttributeTree, left_out: list[EventError] | None
) -> SingleEvent | None:
    """Reads an event as dict_events.flatten does. Returns None if it has to be read there, because something is wrong with it: an
    attribute that is given twice, too many levels, or without `left_out` a value that cannot be used."""
    scope = attributes.scope
    single = SingleEvent([], [], [], scope)
    found: list[EventError] = []
    if not _read(event, attributes.root, attributes, single, found, 0) or (found and left_out is None):
        return None
    given = [*single.names, *(error.attribute for error in found)]
    if len(set(given)) < len(given):
        return None
    single.warnings = found
    return single


def _read(
    event: Mapping[str, Any],
    node: AttributeNode,
    attributes: AttributeTree,
    single: SingleEvent,
    left_out: list[EventError],
    depth: int,
) -> bool:
    """Appends the values of one dictionary, and of those inside it. Returns False if they are nested too deeply."""
    tested, prefixes = node.attributes, node.prefixes
    if len(tested) + len(prefixes) <= SPARSE * len(event):
        listed = attributes.listed() if depth == 0 else list(tested)
        leading = list(prefixes) if prefixes else ()
    else:
        listed = [key for key in event if key in tested]
        leading = [key for key in event if key in prefixes] if prefixes else ()
    names, kinds, plains = single.names, single.kinds, single.plains
    for key in listed:
        plain = event.get(key)
        if plain is None:
            continue
        kind = type(plain)
        if kind is str and plain.isascii():
            kinds.append(STRING)
        elif (kind is int and INT64_MIN <= plain <= INT64_MAX) or (kind is float and plain == plain):
            kinds.append(NUMBER)
        elif kind is bool:
            kinds.append(BOOLEAN)
        elif kind not in READERS and isinstance(plain, Mapping):  # attributes inside it have other names
            continue
        else:
            try:
                value = read_value(plain)
            except ValueProblem as problem:
                left_out.append(EventError(tested[key], str(problem), 0))
                continue
            if value is None:
                continue
            kinds.append(int(value.kind))
            plain = value.plain
        names.append(tested[key])
        plains.append(plain)
    for key in leading:
        inner = event.get(key)
        if type(inner) is dict or (type(inner) not in READERS and isinstance(inner, Mapping)):
            if depth == EVENT_DEPTH:
                return False
            if not _read(inner, attributes.node(prefixes[key]), attributes, single, left_out, depth + 1):
                return False
    return True
