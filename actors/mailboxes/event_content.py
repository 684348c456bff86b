"""The stored form of an event's content: msgpack, with extensions for types that msgpack lacks; or the JSON document as it was published.

The first byte tells which: a packed dictionary begins with a byte of 0x80 or more, a JSON object with a brace.
"""

from __future__ import annotations

import codecs
import datetime
import decimal
import json
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

from ray_pubsub.errors import EventError

__all__ = ["pack_event", "packed_json", "unpack_event"]

DATETIME, DATE, DECIMAL = 1, 2, 3


def pack_event(event: Mapping[str, Any] | bytes, position: int | None = None) -> bytes:
    """Packs an event. Bytes are returned as they are, because they are packed already. Raises EventError."""
    if isinstance(event, bytes):
        return event
    try:
        packed: bytes = msgpack.packb(event if type(event) is dict else dict(event), default=_extension)
    except (TypeError, ValueError, OverflowError) as error:
        raise EventError(None, f"cannot be stored: {error}", position) from None
    return packed


def packed_json(document: bytes) -> bytes:
    """Packs a document, which must be a valid JSON object in UTF-8."""
    return document.removeprefix(codecs.BOM_UTF8).strip()


def unpack_event(packed: bytes) -> dict[str, Any]:
    """Unpacks an event. Never raises for bytes that `pack_event` or `packed_json` has returned, in this release or an earlier one.
    Raises EventError for other bytes."""
    try:
        event = (
            json.loads(packed) if packed[:1] == b"{" else msgpack.unpackb(packed, ext_hook=_value, strict_map_key=False)
        )
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise EventError(None, f"is not stored as an event is: {error}") from error
    if not isinstance(event, dict):
        raise EventError(None, f"is not stored as an event is: it is a {type(event).__name__}")
    return event


def _extension(value: Any) -> Any:
    """Returns what msgpack packs in place of a value that it does not know; None for values that mean absent."""
    if type(value).__name__ in ("NaTType", "NAType"):  # types of pandas, which need not be installed
        return None
    if isinstance(value, datetime.datetime):
        if not datetime.MINYEAR <= value.year <= datetime.MAXYEAR:  # pandas' Timestamp may have such years
            raise TypeError(f"{value} is outside the years 1 to 9999")
        return msgpack.ExtType(DATETIME, value.isoformat().encode())
    if isinstance(value, datetime.date):
        return msgpack.ExtType(DATE, value.isoformat().encode())
    if isinstance(value, decimal.Decimal):
        return msgpack.ExtType(DECIMAL, str(value).encode())
    if isinstance(value, np.datetime64):
        moment = value.astype("datetime64[us]").item()
        if isinstance(moment, int):
            raise TypeError(f"{value} is outside the years 1 to 9999")
        return None if moment is None else _extension(moment)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return list(value) if value.dtype.kind in "Mm" else value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a type of an event's values")


def _value(code: int, content: bytes) -> Any:
    text = content.decode(errors="replace")
    try:
        if code == DATETIME:
            return None if text == "NaT" else datetime.datetime.fromisoformat(text)
        if code == DATE:
            return datetime.date.fromisoformat(text)
        if code == DECIMAL:
            return decimal.Decimal(text)
    except (ValueError, ArithmeticError):
        return text
    return msgpack.ExtType(code, content)
