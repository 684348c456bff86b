"""Encodes and decodes JSON and msgpack. Events that came as JSON go out as the same bytes."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from typing import Any

import msgpack
import numpy as np

from actors.http.problems import HttpError
from actors.mailboxes.delivery import DeadLetter, Delivery
from actors.mailboxes.event_content import unpack_event

__all__ = ["JSON", "MSGPACK", "decoded", "delivery_json", "delivery_plain", "encoded", "json_text"]

JSON, MSGPACK = "application/json", "application/msgpack"
MOST_ITEMS = 1_000_000
"""The most items of one array or map in msgpack: a few bytes there may become hundreds in memory."""


def json_text(value: Any) -> bytes:
    """Raises ValueError for infinities and NaN."""
    try:
        return READABLE(value).encode()
    except UnicodeEncodeError:  # half of a surrogate pair: only an escape can carry it
        return ESCAPED(value).encode()


def encoded(value: Any, kind: str) -> bytes:
    """Encodes finite numbers, texts, lists and dicts; other values of events become text."""
    if kind == MSGPACK:
        packed: bytes = msgpack.packb(_finite(value), default=_plain, unicode_errors="replace")
        return packed
    try:
        return json_text(value)
    except ValueError:  # JSON has no infinities and no NaN
        return json_text(_finite(value))


def decoded(body: bytes, kind: str) -> Any:
    """Decodes a request's body. Raises HttpError."""
    if kind == MSGPACK:
        try:
            return msgpack.unpackb(body, max_array_len=MOST_ITEMS, max_map_len=MOST_ITEMS, max_ext_len=1024)
        except (ValueError, msgpack.exceptions.StackError) as error:
            raise HttpError(400, f"this is not msgpack: {error or type(error).__name__}") from None
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"this is not JSON: {error}") from None


def delivery_plain(delivery: Delivery | DeadLetter, carried: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns a delivery with the event as an object. `carried` has the data and tags of the subscription."""
    return {**_fields(delivery), **(carried or {}), "event": delivery.event}


def delivery_json(delivery: Delivery | DeadLetter, carried: dict[str, Any] | None = None) -> bytes:
    """Returns the same as JSON in one line. An event that was published as JSON is not parsed, because line breaks in it are white space;
    only if it may have a NaN or an infinity, which the server reads as absent and most readers of JSON refuse."""
    head = json_text({**_fields(delivery), **carried} if carried else _fields(delivery))
    content = delivery.content
    if content is None:
        event = b"null"
    elif content[:1] == b"{" and (b"NaN" in content or b"Infinity" in content):
        event = encoded(json.loads(content), JSON)
    elif content[:1] == b"{":
        event = content.replace(b"\n", b" ").replace(b"\r", b" ")
    else:
        event = encoded(unpack_event(content), JSON)
    return b'%s,"event":%s}' % (head[:-1], event)


def _fields(delivery: Delivery | DeadLetter) -> dict[str, Any]:
    found = {
        "subscriber": delivery.subscriber,
        "sequence": delivery.sequence,
        "subscription_id": delivery.subscription_id,
        "event_id": delivery.event_id,
        "priority": delivery.priority,
        "enqueued": delivery.enqueued,
    }
    if isinstance(delivery, DeadLetter):
        return {**found, "attempts": delivery.attempts, "reason": delivery.reason, "died": delivery.died}
    return {
        **found,
        "attempt": delivery.attempt,
        "deadline": delivery.deadline,
        "visible_until": delivery.visible_until,
        "receipt": f"{delivery.sequence}-{delivery.lease}",
    }


def _plain(value: Any) -> Any:
    """Converts a value that neither JSON nor msgpack has."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value


READABLE = json.JSONEncoder(default=_plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
ESCAPED = json.JSONEncoder(default=_plain, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode
