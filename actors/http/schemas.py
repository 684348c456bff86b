"""The JSON schemas of answers, for the OpenAPI document. The tests compare them with real answers."""

from __future__ import annotations

from typing import Any

__all__ = ["SCHEMAS"]

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
ID: Schema = {"type": ["string", "integer"]}
TEXTS: Schema = {"type": "array", "items": TEXT}


def _of(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _said(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _object(needed: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {"type": "object", "required": list(needed), "properties": {**needed, **(optional or {})}}


LATENCIES = _object({"count": WHOLE, "p50": _or_null(NUMBER), "p99": _or_null(NUMBER)})
CARRIED: dict[str, Schema] = {
    "data": _said(ANYTHING, "what the subscription carries"),
    "tags": _said(TEXTS, "the tags of the subscription"),
}
MATCH = _object({"id": ID, "subscriber": TEXT}, CARRIED)
LEVEL = _object(
    {"level": TEXT, **dict.fromkeys(("on_time", "late", "expired", "dropped", "waiting", "overdue"), WHOLE)}
)
WORK: dict[str, Schema] = {
    "number": WHOLE, "pid": WHOLE, "epoch": _said(WHOLE, "which start of the process this is"), "version": WHOLE, "memory_bytes": WHOLE,
    "uptime": NUMBER, "events": WHOLE, "matches": WHOLE, "events_per_second": NUMBER, "latencies": LATENCIES,
}  # fmt: skip

SCHEMAS: dict[str, Schema] = {
    "Problem": _object(
        {
            "type": _said(TEXT, "urn:ray-pubsub: and the class of the error"),
            "title": TEXT,
            "status": WHOLE,
            "detail": _said(TEXT, "for people; shows a caret under the place of a syntax error"),
        },
        {
            "position": _said(WHOLE, "of a syntax error in the expression, of an event in a batch"),
            "expected": TEXTS,
            "attribute": _said({"type": ["string", "null"]}, "of an event that is at fault"),
            "reason": _said(TEXT, "without the place"),
        },
    ),
    "PublishReport": _object(
        {"events": WHOLE, "matches": WHOLE, "bad_events": WHOLE},
        {
            "moment": _said(WHOLE, "what now() stood for in all events, in microseconds since 1970"),
            "deliveries": _object(
                {
                    **dict.fromkeys(("delivered", "duplicates", "dead", "dropped", "rejected"), WHOLE),
                    "rejected_subscribers": _said(TEXTS, "whose mailboxes were full; the first hundred"),
                }
            ),
            "errors": _said(_list(_of("Problem")), "of bad events, the first hundred; position is the event's"),
            "warning_count": _said(WHOLE, "the attributes that were left out because their values cannot be used"),
            "warnings": _list(_object({"position": WHOLE, "attribute": _or_null(TEXT), "reason": TEXT})),
            "results": _said(
                _list(_object({"event_id": ANYTHING, "priority": TEXT, "matches": _list(MATCH)})),
                "with matches=true or data=true, for each event",
            ),
        },
    ),
    "Delivery": _object(
        {
            "subscriber": TEXT, "sequence": WHOLE, "subscription_id": ID, "event_id": ANYTHING, "priority": TEXT,
            "enqueued": _said(NUMBER, "seconds since 1970"), "attempt": WHOLE, "deadline": _or_null(NUMBER),
            "visible_until": _said(NUMBER, "when it comes again if it is not acknowledged"), "receipt": TEXT,
            "event": _or_null({"type": "object"}),
        },
        CARRIED,
    ),
    "Deliveries": _object(
        {"items": _list(_of("Delivery"))},
        {"warning": _said(TEXT, "nothing waits, and nobody has subscribed under this name, which may be misspelt")},
    ),
    "AckReport": _object(
        {"accepted": WHOLE, "stale": _list(_object({"position": WHOLE, "receipt": TEXT, "reason": TEXT}))}
    ),
    "Subscribed": _object({"id": ID, "subscriber": TEXT, "expression": TEXT}, CARRIED),
    "Subscription": _object(
        {
            "id": ID, "subscriber": TEXT, "expression": TEXT, "kind": TEXT, "shard": WHOLE, "version": WHOLE, "data": ANYTHING,
            "tags": TEXTS,
        }
    ),
    "Subscriptions": _object(
        {
            "items": _list(_of("Subscription")), "after": _said(_or_null(WHOLE), "for the next page; null on the last one"),
            "looked_at": WHOLE,
        }
    ),
    "LoadReport": _object(
        {
            "added": WHOLE, "rejected": WHOLE, "lines": WHOLE,
            "rejections": _list(_object({"position": WHOLE, "id": _or_null(ID), "error": _of("Problem")})),
        }
    ),
    "Removed": _object({"removed": _said({"type": ["boolean", "integer"]}, "whether there was one, or how many")}),
    "Stats": _object(
        {
            "name": TEXT,
            "address": TEXT,
            "data_dir": _or_null(TEXT),
            "registry": _object(
                {},
                {
                    **dict.fromkeys(("subscriptions", "subscribers", "rules", "version", "epoch", "pid", "memory_bytes"), WHOLE),
                    "bytes": _said(_or_null(WHOLE), "on disk"), "settled": FLAG, "loads": _list(NUMBER),
                },
            ),
            "shards": _list(
                _object(
                    {"number": WHOLE, "state": _said(TEXT, "serving, loading, behind, replaced or away")},
                    {**WORK, "behind": WHOLE, "subscriptions": WHOLE, "clauses": WHOLE, "index_bytes": WHOLE, "index": {"type": "object"}},
                )
            ),
            "coordinators": _list(
                _object(
                    {"number": WHOLE},
                    {**WORK, "lease_left": NUMBER, **dict.fromkeys(("bad_events", "retries", "refused", "failed", "in_flight"), WHOLE)},
                )
            ),
            "mailboxes": _or_null(
                _object(
                    {
                        **dict.fromkeys(("mailboxes", "delivered", "acked", "waiting", "in_flight", "dead"), WHOLE),
                        "oldest_wait": _or_null(NUMBER), "levels": _list(LEVEL),
                        "on_time": _said({"type": "object"}, "the event delivery on-time rate of each level"),
                    }
                )
            ),
            "ranking": _said(_or_null({"type": "object"}), "the subscriptions that match most, and some that never did"),
            "unavailable": _said({"type": "object"}, "the processes that did not answer, with the reason"),
            "metrics": _said(TEXTS, "where Prometheus reads the metrics"),
            "http": _object(
                {"streams": WHOLE, "recent_events": WHOLE, "webhooks": _list({"type": "object"}), "client": TEXT, "scopes": TEXTS,
                 "levels": TEXTS}
            ),
        }
    ),
}  # fmt: skip
"""By name; a field that is not required may be absent."""
