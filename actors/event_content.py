"""An event's content at rest: msgpack, with what msgpack lacks of an event's types as extensions."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

from ray_pubsub.errors import EventError

__all__ = ["pack_event", "unpack_event"]

DATETIME, DATE, DECIMAL = 1, 2, 3


def pack_event(event: Mapping[str, Any] | bytes, position: int | None = None) -> bytes:
    """Bytes are taken as packed already."""
    if isinstance(event, bytes):
        return event
    try:
        packed: bytes = msgpack.packb(event if type(event) is dict else dict(event), default=_extension)
    except (TypeError, ValueError, OverflowError) as error:
        raise EventError(None, f"cannot be stored: {error}", position) from None
    return packed


def unpack_event(packed: bytes) -> dict[str, Any]:
    event: dict[str, Any] = msgpack.unpackb(packed, ext_hook=_value, strict_map_key=False)
    return event


def _extension(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return msgpack.ExtType(DATETIME, value.isoformat().encode())
    if isinstance(value, datetime.date):
        return msgpack.ExtType(DATE, value.isoformat().encode())
    if isinstance(value, decimal.Decimal):
        return msgpack.ExtType(DECIMAL, str(value).encode())
    if isinstance(value, np.datetime64):
        return _extension(value.astype("datetime64[us]").item())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a type of an event's values")


def _value(code: int, content: bytes) -> Any:
    text = content.decode()
    if code == DATETIME:
        return datetime.datetime.fromisoformat(text)
    if code == DATE:
        return datetime.date.fromisoformat(text)
    if code == DECIMAL:
        return decimal.Decimal(text)
    return msgpack.ExtType(code, content)
