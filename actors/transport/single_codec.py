"""Encodes a batch of one event: its attributes, their kinds and plain values, packed as they are. Columns of one value each would take
several times as long to make, and to read in every shard."""

from __future__ import annotations

from typing import Any

from actors.transport.frames import ProtocolError, check, number
from ray_pubsub.model.arguments import is_unicode
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.single_event import SingleEvent, single_of
from ray_pubsub.model.values import INT64_MAX, INT64_MIN, Kind, Value
from ray_pubsub.settings import EVENT_DEPTH, LIST_ELEMENTS

__all__ = ["SINGLE_FIELDS", "decode_single", "encode_single"]

SINGLE_FIELDS = 4
MOST_ELEMENTS = 256
"""The most elements of a list that is packed one by one; longer ones travel in columns."""
NUMBER, STRING, BOOLEAN, TIMESTAMP, LIST = map(int, Kind)
KIND_OF = tuple(Kind)
TEXTS = frozenset({str})
NO_VALUE = "a value that is not of its kind"

Fields = tuple[int, list[str], bytes, list[Any]]


def encode_single(batch: EventBatch) -> Fields | None:
    """Returns the fields of a header, or None for a batch that has to travel in columns."""
    if batch.size != 1:
        return None
    event = batch if type(batch) is SingleEvent else single_of(batch)
    if event is None:
        return None
    plains = event.plains
    if LIST in event.kinds:
        pairs = list(zip(event.kinds, plains, strict=True))
        if any(kind == LIST and len(plain) > MOST_ELEMENTS for kind, plain in pairs):
            return None
        plains = [_packed_list(plain) if kind == LIST else plain for kind, plain in pairs]
    return batch.moment, event.names, bytes(event.kinds), plains


def _packed_list(elements: Any) -> list[Any]:
    """Packs each element: None, a value with its kind, or the values of an object by attribute."""
    return [
        _packed_value(each)
        if isinstance(each, Value)
        else None
        if each is None
        else {name: _packed_value(value) for name, value in each.items()}
        for each in elements
    ]


def _packed_value(value: Value) -> Any:
    return int(value.kind), _packed_list(value.plain) if value.kind == LIST else value.plain


def decode_single(fields: list[Any]) -> SingleEvent:
    """Reads such fields. Raises ProtocolError, or any other exception if they are not valid (`frames.decoded`)."""
    moment, names, kinds, plains = fields
    if type(names) is not list or type(plains) is not list or type(kinds) is not bytes:
        raise ProtocolError("an event that is none")
    if not len(names) == len(kinds) == len(plains) == len(set(names)):
        raise ProtocolError("an attribute twice, or without a value")
    if names and set(map(type, names)) != TEXTS:
        raise ProtocolError("attributes that are not texts")
    listed = list(kinds)
    for place, kind in enumerate(listed):
        plain = plains[place]
        held = type(plain)
        if held is int and kind == NUMBER and INT64_MIN <= plain <= INT64_MAX:
            continue
        if held is str and kind == STRING and plain.isascii():
            continue
        if kind == LIST:
            plains[place] = _list(plain, 1)
        elif not _is_plain(kind, plain):
            raise ProtocolError(NO_VALUE)
    event = SingleEvent(names, listed, plains, None)
    event._moment = number(moment, -(2**63))
    return event


def _is_plain(kind: int, plain: Any) -> bool:
    """Returns whether this is a plain value of this kind (model/values.py)."""
    held = type(plain)
    if kind == NUMBER:
        return INT64_MIN <= plain <= INT64_MAX if held is int else held is float and plain == plain
    if kind == STRING:
        return held is str and (plain.isascii() or is_unicode(plain))
    if kind == BOOLEAN:
        return held is bool
    return kind == TIMESTAMP and held is int and INT64_MIN <= plain <= INT64_MAX


def _list(packed: Any, depth: int) -> tuple[Any, ...]:
    check(
        type(packed) is list and len(packed) <= LIST_ELEMENTS and depth <= EVENT_DEPTH,
        "a list that is none, or too deep",
    )
    found: list[Any] = []
    for each in packed:
        if each is None:
            found.append(None)
        elif type(each) is dict:
            check(set(map(type, each)) <= {str}, "attributes that are not texts")
            found.append({name: _value(value, depth) for name, value in each.items()})
        else:
            found.append(_value(each, depth))
    return tuple(found)


def _value(packed: Any, depth: int) -> Value:
    kind, plain = packed
    if kind == LIST:
        return Value(Kind.LIST, _list(plain, depth + 1))
    check(type(kind) is int and _is_plain(kind, plain), NO_VALUE)
    return Value(KIND_OF[kind], plain)
