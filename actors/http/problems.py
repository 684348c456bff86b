"""Converts errors to RFC 9457 documents (application/problem+json), with the fields of our errors."""

from __future__ import annotations

from typing import Any

from ray_pubsub import errors
from ray_pubsub.errors import RayPubSubError, Rejection

__all__ = ["HttpError", "Problem", "problem_of", "rejection_of"]

STATUS: dict[type[RayPubSubError], int] = {
    errors.ExpressionError: 422,
    errors.SubscriptionIdError: 422,
    errors.MetadataError: 422,
    errors.EventError: 422,
    errors.SettingError: 422,
    errors.UnknownLevelError: 422,
    errors.RejectedSubscriptionsError: 422,
    errors.TableError: 422,
    errors.UnknownSubscriptionError: 404,
    errors.UnknownRuleError: 404,
    errors.OverloadedError: 429,
    errors.UnavailableError: 503,
    errors.UnknownServerError: 503,
    errors.ServerClosedError: 503,
    errors.ClusterError: 503,
    errors.FencedError: 503,
    errors.StoreError: 503,
    errors.ServerReleaseError: 502,
}
TITLES = {
    400: "Bad request",
    401: "A token is needed",
    403: "The token does not allow this",
    404: "Not found",
    405: "Method not allowed",
    406: "No format that the client accepts",
    408: "The request came too slowly",
    409: "Conflict",
    413: "Too large",
    415: "Unknown format",
    422: "Cannot be used",
    429: "Overloaded",
    500: "Internal error",
    502: "Another release",
    503: "Unavailable",
}
MOST_SHOWN = 100
"""The most rejections in one document."""


class HttpError(Exception):
    """An error of the request itself, with the fields of its document."""

    def __init__(self, status: int, detail: str, **fields: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.fields = fields


class Problem:
    """The status, document and headers of an error response."""

    __slots__ = ("document", "headers", "status")

    def __init__(self, status: int, kind: str, detail: str, fields: dict[str, Any]) -> None:
        self.status = status
        self.headers: list[tuple[bytes, bytes]] = []
        self.document = {
            "type": f"urn:ray-pubsub:{kind}",
            "title": TITLES.get(status, "Error"),
            "status": status,
            "detail": detail,
            **fields,
        }


def problem_of(error: BaseException) -> Problem:
    """Returns the response for an error. For an error that is not ours the client only learns that it happened, because its text may
    reveal internals."""
    if isinstance(error, HttpError):
        problem = Problem(error.status, "http", error.detail, error.fields)
        if error.status == 401:
            problem.headers.append((b"www-authenticate", b'Bearer realm="ray-pubsub"'))
        if error.status == 405:
            problem.headers.append((b"allow", ", ".join(error.fields["allowed"]).encode()))
        if "retry_after" in error.fields:
            problem.headers.append((b"retry-after", _seconds(error.fields["retry_after"])))
        return problem
    if not isinstance(error, RayPubSubError):
        return Problem(500, "internal", "an unexpected error; the log of the HTTP process tells more", {})
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)
    problem = Problem(status, type(error).__name__, str(error), _fields(error))
    if isinstance(error, errors.OverloadedError):
        problem.headers.append((b"retry-after", _seconds(error.retry_after)))
    elif status == 503:
        problem.headers.append((b"retry-after", b"2"))
    return problem


def rejection_of(rejection: Rejection) -> dict[str, Any]:
    """Returns the document of one bad item of a bulk operation."""
    return {
        "position": rejection.position,
        "id": rejection.id if isinstance(rejection.id, str | int) else None,
        "error": problem_of(rejection.error).document,
    }


def _fields(error: RayPubSubError) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in vars(error).items():
        if name.startswith("_"):
            continue
        if name == "rejections":
            found[name] = [rejection_of(each) for each in value[:MOST_SHOWN]]
        elif isinstance(value, str | int | float | bool) or value is None:
            found[name] = value
        elif isinstance(value, tuple | list):
            found[name] = [each if isinstance(each, str | int | float) else str(each) for each in value]
    return found


def _seconds(value: float) -> bytes:
    return str(max(1, round(value))).encode()
