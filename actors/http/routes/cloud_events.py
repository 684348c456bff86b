"""CloudEvents 1.0 over HTTP. In every mode the published event is the envelope: expressions test `type`, `source` or `data.price`."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from actors.http.encoding import JSON, decoded, json_text
from actors.http.json_array import documents_of_array
from actors.http.problems import HttpError

if TYPE_CHECKING:
    from actors.http.requests import Request

__all__ = ["binary_event", "checked_batch", "checked_envelope", "idempotency_key_of"]

NEEDED = ("id", "source", "type")
PREFIX = "ce-"


def checked_envelope(envelope: Any) -> dict[str, Any]:
    """Checks that an envelope has the attributes that every CloudEvent must have. Raises HttpError."""
    if not isinstance(envelope, dict):
        raise HttpError(422, "a CloudEvent is a JSON object")
    missing = [name for name in NEEDED if not isinstance(envelope.get(name), str) or not envelope[name]]
    if missing:
        raise HttpError(422, f"the CloudEvent lacks {', '.join(missing)}", missing=missing)
    if envelope.get("specversion") != "1.0":
        raise HttpError(422, f"the specversion must be '1.0', not {envelope.get('specversion')!r}")
    return envelope


def checked_batch(body: bytes) -> list[bytes]:
    """Returns the envelopes of a batch, as they came."""
    if body.lstrip()[:1] != b"[":
        raise HttpError(422, "a batch of CloudEvents is a JSON array")
    envelopes = documents_of_array(body)
    for envelope in envelopes:
        checked_envelope(decoded(envelope, JSON))
    return envelopes


def binary_event(request: Request, body: bytes, kind: str) -> bytes:
    """Returns the envelope of an event whose attributes are headers and whose data is the body."""
    envelope = {
        name.decode("latin-1")[len(PREFIX) :]: unquote(value.decode("latin-1"))
        for name, value in request.scope["headers"]
        if name.startswith(PREFIX.encode())
    }
    checked_envelope(envelope)
    if body:
        envelope["datacontenttype"] = kind
        if kind == JSON or kind.endswith("+json"):
            decoded(body, JSON)  # raises if it is not JSON, so that nothing else gets into the envelope
            return b'%s,"data":%s}' % (json_text(envelope)[:-1], body.replace(b"\n", b" ").replace(b"\r", b" "))
        if kind.startswith("text/"):
            envelope["data"] = body.decode(errors="replace")
        else:
            envelope["data_base64"] = base64.b64encode(body).decode()
    return json_text(envelope)


def idempotency_key_of(source: str | None, id: str | None) -> str:
    """Returns the key of a CloudEvent. Source and id together identify it; if it is sent again, it is delivered once."""
    # No client's name begins so.
    return "#ce:" + hashlib.sha256(f"{source}\n{id}".encode(errors="replace")).hexdigest()
