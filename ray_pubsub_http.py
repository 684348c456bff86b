"""A client of ray-pubsub's HTTP interface that needs nothing but Python: neither Ray nor numba, nor the rest of this library.

It is a module of its own, beside the packages, because importing anything from `ray_pubsub` imports what matching needs. The file can be
copied into any program.

    from ray_pubsub_http import HttpClient

    with HttpClient("http://127.0.0.1:8480", token="…") as client:
        client.subscribe("desk-7", "model = 'iphone5s' and price <= 580", id="s1")
        client.publish({"model": "iphone5s", "price": 550})
        for delivery in client.poll("desk-7", wait=5):
            print(delivery.event)
            client.ack(delivery)
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
import uuid
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

__all__ = [
    "AckReport",
    "DeadLetter",
    "Delivery",
    "HttpClient",
    "LoadReport",
    "ProblemError",
    "PublishReport",
    "Subscription",
]

RETRIED = (429, 503)
LONGEST_PAUSE = 10.0


class ProblemError(Exception):
    """The server's error: its status, its text, and every field that it has (RFC 9457). `position` of a syntax error is where the caret
    stands."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = dict(document)
        self.status = int(document.get("status", 0))
        self.kind = str(document.get("type", "")).rpartition(":")[2]
        """The name of the error's class in the library, ExpressionSyntaxError say."""
        self.position: int | None = document.get("position")
        self.retry_after: float | None = document.get("retry_after")
        super().__init__(str(document.get("detail") or document.get("title") or "an error"))


@dataclass(frozen=True, slots=True)
class Subscription:
    id: str | int
    subscriber: str
    expression: str
    data: Any = None
    """What it carries: a JSON value."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery. Acknowledge it, or it comes again."""

    subscriber: str
    sequence: int
    subscription_id: str | int
    event: dict[str, Any] | None
    event_id: Any
    priority: str
    attempt: int
    receipt: str
    enqueued: float
    visible_until: float
    data: Any = None
    """What the subscription carries, if it was asked for."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    subscriber: str
    sequence: int
    subscription_id: str | int
    event: dict[str, Any] | None
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True)
class AckReport:
    accepted: int
    stale: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PublishReport:
    events: int
    matches: int
    bad_events: int
    delivered: int
    duplicates: int
    rejected: int
    errors: list[dict[str, Any]]
    results: list[dict[str, Any]] | None
    """Per event its matches, if they were asked for; `with_data` each has the `data` and `tags` of its subscription."""
    warnings: list[dict[str, Any]]
    """The first attributes that were left out because their values cannot be used."""
    warning_count: int
    moment: int | None = None
    """What now() stood for in all events, in microseconds since 1970; None if nothing was published."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    added: int
    rejected: int
    rejections: list[dict[str, Any]]


class HttpClient:
    """Safe to use from several threads: each has a connection of its own. What the server could not take (429, 503) is sent again, within
    `patience` seconds, under the same Idempotency-Key, so that nothing is delivered twice."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        patience: float = 10.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"a URL begins with http:// or https:// and names a host, not {url!r}")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._base = parts.path.rstrip("/")
        self._timeout = timeout
        self._patience = patience
        self._context = context
        self._headers = {"Accept": "application/json", "User-Agent": "ray-pubsub-python"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._local = threading.local()

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes this thread's connection."""
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    # ------------------------------------------------------------------------------------------------------------ subscribing

    def subscribe(
        self,
        subscriber: str,
        expression: str,
        *,
        id: str | int | None = None,
        data: Any = None,
        tags: Iterable[str] = (),
    ) -> str | int:
        """Adds or replaces a subscription; returns its id. `data`: a small JSON value that it carries; `tags`: names to select by."""
        optional = {"id": id, "data": data, "tags": list(tags) or None}
        body = {"subscriber": subscriber, "expression": expression}
        body |= {name: value for name, value in optional.items() if value is not None}
        answer = self._json("POST", "/v1/subscriptions", body, key=uuid.uuid4().hex)
        found: str | int = answer["id"]
        return found

    def unsubscribe(self, id: str | int) -> bool:
        return bool(self._json("DELETE", f"/v1/subscriptions/{_id(id)}")["removed"])

    def unsubscribe_many(self, *, tag: str) -> int:
        """Removes all subscriptions that have this tag, of all subscribers; returns their number. Needs the scope subscribe:* or admin."""
        return int(self._json("DELETE", _with("/v1/subscriptions", {"tag": tag}))["removed"])

    def subscription(self, id: str | int) -> Subscription:
        return _subscription(self._json("GET", f"/v1/subscriptions/{_id(id)}"))

    def subscriptions(
        self, subscriber: str | None = None, *, search: str | None = None, tag: str | None = None
    ) -> Iterator[Subscription]:
        """All of a subscriber, or of all (which needs the scope read), in the order they were added."""
        after: int | None = 0
        while after is not None:
            query = {"after": after, "limit": 1000, "subscriber": subscriber, "search": search, "tag": tag}
            page = self._json("GET", _with("/v1/subscriptions", query))
            yield from map(_subscription, page["items"])
            after = page["after"]

    def load(self, subscriptions: Iterable[Subscription | Mapping[str, Any]]) -> LoadReport:
        """Adds many, streamed; the bad ones are reported by position, and the others added."""
        lines = (
            {
                "id": each.id,
                "subscriber": each.subscriber,
                "expression": each.expression,
                "data": each.data,
                "tags": list(each.tags) or None,
            }
            if isinstance(each, Subscription)
            else dict(each)
            for each in subscriptions
        )
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        answer = self._json("POST", "/v1/subscriptions/bulk", body, kind="application/x-ndjson")
        return LoadReport(answer["added"], answer["rejected"], answer["rejections"])

    def check(self, expression: str) -> None:
        """Raises ProblemError, with the position, if the expression cannot be used."""
        self._json("POST", "/v1/expressions/check", {"expression": expression})

    # ------------------------------------------------------------------------------------------------------------ publishing

    def publish(
        self,
        events: Mapping[str, Any] | Iterable[Mapping[str, Any]],
        *,
        event_id: str | None = None,
        deliver: bool = True,
        strict: bool = False,
        matches: bool = False,
        with_data: bool = False,
        idempotency_key: str | None = None,
    ) -> PublishReport:
        """One event or many. Raises ProblemError for a single one that is bad; among many it is reported. An attribute whose value cannot
        be used is left out, with a warning; with `strict`, its event is a bad one. `with_data`: the report has the matches with what their
        subscriptions carry."""
        options = {"event_id": event_id, "deliver": deliver, "strict": strict, "matches": matches, "data": with_data}
        if isinstance(events, Mapping):
            return self._publish(json.dumps(events).encode(), "application/json", options, idempotency_key)
        lines = b"".join(json.dumps(event).encode() + b"\n" for event in events)
        return self._publish(lines, "application/x-ndjson", options, idempotency_key)

    def publish_lines(
        self,
        lines: bytes,
        *,
        event_id: str | None = None,
        deliver: bool = True,
        strict: bool = False,
        matches: bool = False,
        with_data: bool = False,
        idempotency_key: str | None = None,
    ) -> PublishReport:
        """JSON, a document in each line, sent as it is."""
        options = {"event_id": event_id, "deliver": deliver, "strict": strict, "matches": matches, "data": with_data}
        return self._publish(lines, "application/x-ndjson", options, idempotency_key)

    def _publish(self, body: bytes, kind: str, options: Mapping[str, Any], key: str | None) -> PublishReport:
        usual = {"event_id": None, "deliver": True, "strict": False, "matches": False, "data": False}
        query = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in options.items()
            if value != usual[name]
        }
        answer = self._json("POST", _with("/v1/events", query), body, kind=kind, key=key or uuid.uuid4().hex)
        delivered = answer.get("deliveries", {})
        return PublishReport(
            answer["events"], answer["matches"], answer["bad_events"], delivered.get("delivered", 0),
            delivered.get("duplicates", 0), delivered.get("rejected", 0), answer.get("errors", []), answer.get("results"),
            answer.get("warnings", []), answer.get("warning_count", 0), answer.get("moment"),
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------------------ consuming

    def poll(
        self,
        subscriber: str,
        *,
        limit: int = 100,
        wait: float = 0.0,
        visibility_timeout: float | None = None,
        with_data: bool = False,
    ) -> list[Delivery]:
        """Up to `limit` deliveries, the most urgent first, as soon as there are any; none after `wait` seconds. `with_data`: with what
        their subscriptions carry. Warns if nobody has subscribed under this name, which may be misspelt."""
        query = {
            "limit": limit,
            "wait": wait,
            "visibility_timeout": visibility_timeout,
            "data": "true" if with_data else None,
        }
        answer = self._json("POST", _with(f"/v1/subscribers/{_part(subscriber)}/poll", query))
        if "warning" in answer:
            warnings.warn(answer["warning"], stacklevel=2)
        return [_delivery(each) for each in answer["items"]]

    def stream(
        self, subscriber: str, *, ack: str = "auto", last_event_id: int | None = None, with_data: bool = False
    ) -> Generator[Delivery, None, None]:
        """Deliveries as they arrive, for ever. When the connection is lost, another one continues after the last delivery that was taken
        from this iterator: what came before it is acknowledged, what came after it comes again. `with_data`: with what their subscriptions
        carry."""
        last, pause = last_event_id, 0.2
        while True:
            try:
                for delivery in self._stream(subscriber, ack, last, with_data):
                    pause = 0.2
                    yield delivery
                    last = delivery.sequence
            except ProblemError as error:
                if error.status not in RETRIED:
                    raise
            except (OSError, HTTPException):
                pass
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _stream(self, subscriber: str, ack: str, last: int | None, with_data: bool) -> Generator[Delivery, None, None]:
        connection = self._connect()
        headers = {**self._headers, "Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        try:
            path = _with(
                f"/v1/subscribers/{_part(subscriber)}/stream", {"ack": ack, "data": "true" if with_data else None}
            )
            connection.request("GET", f"{self._base}{path}", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise ProblemError(_document(answer.status, answer.read()))
            for line in answer:
                if line.startswith(b"data: "):
                    yield _delivery(json.loads(line[6:]))
        finally:
            connection.close()

    def ack(self, deliveries: Delivery | Iterable[Delivery]) -> AckReport:
        """These are done with, and never come again."""
        return self._settle("ack", deliveries, {})

    def nack(
        self, deliveries: Delivery | Iterable[Delivery], *, delay: float = 0.0, reason: str = "refused"
    ) -> AckReport:
        """These failed: they come again after `delay` seconds, or are dead letters if that was the last attempt."""
        return self._settle("nack", deliveries, {"delay": delay, "reason": reason})

    def release(self, deliveries: Delivery | Iterable[Delivery]) -> AckReport:
        """These were not looked at: they come again, and it was no attempt."""
        return self._settle("release", deliveries, {})

    def extend(self, deliveries: Delivery | Iterable[Delivery], seconds: float) -> AckReport:
        """These take longer."""
        return self._settle("extend", deliveries, {"seconds": seconds})

    def _settle(self, method: str, deliveries: Delivery | Iterable[Delivery], more: Mapping[str, Any]) -> AckReport:
        listed = [deliveries] if isinstance(deliveries, Delivery) else list(deliveries)
        by_subscriber: dict[str, list[str]] = {}
        for each in listed:
            by_subscriber.setdefault(each.subscriber, []).append(each.receipt)
        accepted, stale = 0, []
        for subscriber, receipts in by_subscriber.items():
            path = f"/v1/subscribers/{_part(subscriber)}/{method}"
            answer = self._json("POST", path, {"receipts": receipts, **more})
            accepted += answer["accepted"]
            stale += answer["stale"]
        return AckReport(accepted, stale)

    def dead_letters(self, subscriber: str, *, limit: int = 100) -> list[DeadLetter]:
        """What failed for good, oldest first."""
        found = self._json("GET", f"/v1/subscribers/{_part(subscriber)}/dead-letters?limit={limit}")["items"]
        names = DeadLetter.__dataclass_fields__
        return [DeadLetter(**{name: each[name] for name in names}) for each in found]

    def redrive(self, subscriber: str, sequences: Iterable[int] | None = None) -> int:
        """These dead letters, or all, are delivered again."""
        body = {} if sequences is None else {"sequences": list(sequences)}
        return int(self._json("POST", f"/v1/subscribers/{_part(subscriber)}/dead-letters/redrive", body)["redriven"])

    def set_webhook(
        self,
        name: str,
        subscriber: str,
        url: str,
        *,
        secret: str | None = None,
        concurrency: int | None = None,
        with_data: bool = False,
    ) -> str | None:
        """Posts what this subscriber gets to the URL, signed as Standard Webhooks, in at most `concurrency` requests at once; `with_data`:
        with what its subscriptions carry. Returns the secret if it is new."""
        optional = {"secret": secret, "concurrency": concurrency, "data": with_data or None}
        body: dict[str, Any] = {"subscriber": subscriber, "url": url}
        body |= {name: value for name, value in optional.items() if value is not None}
        found: str | None = self._json("PUT", f"/v1/webhooks/{_part(name)}", body).get("secret")
        return found

    def remove_webhook(self, name: str) -> bool:
        return bool(self._json("DELETE", f"/v1/webhooks/{_part(name)}")["removed"])

    # ------------------------------------------------------------------------------------------------------------ looking in

    def explain(self, event: Mapping[str, Any], id: str | int | None = None) -> dict[str, Any]:
        """What matches, and how; with an id: why this subscription does or does not."""
        body = {"event": dict(event), **({} if id is None else {"id": _plain_id(id)})}
        found: dict[str, Any] = self._json("POST", "/v1/explain", body)
        return found

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = self._json("GET", "/v1/stats")
        return found

    # ------------------------------------------------------------------------------------------------------------ transport

    def _json(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", key: str | None = None
    ) -> Any:
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = dict(self._headers)
        if content is not None:
            headers["Content-Type"] = kind
        if key is not None:
            headers["Idempotency-Key"] = key
        ends, pause = time.monotonic() + self._patience, 0.1
        # A request that may be repeated without harm is also repeated when its connection breaks.
        safe = key is not None or method != "POST"
        while True:
            retry: float
            try:
                status, found, after = self._once(method, self._base + path, content, headers)
                if status < 400:
                    return json.loads(found)
                problem = ProblemError(_document(status, found))
                if status not in RETRIED or time.monotonic() + after > ends:
                    raise problem
                retry = max(after, pause)
            except (OSError, HTTPException):
                if not safe or time.monotonic() + pause > ends:
                    raise
                retry = pause
            time.sleep(min(retry, LONGEST_PAUSE))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes, float]:
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        try:
            connection.request(method, path, body, dict(headers))
            answer: HTTPResponse = connection.getresponse()
            after = answer.getheader("retry-after") or "0"
            return answer.status, answer.read(), float(after) if after.isdigit() else 1.0
        except BaseException:
            self.close()
            raise

    def _connect(self) -> HTTPConnection:
        if self._secure:
            return HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
        connection = HTTPConnection(self._host, self._port, timeout=self._timeout)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _document(status: int, body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"status": status, "detail": f"HTTP {status}"}


def _with(path: str, query: Mapping[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _part(text: str) -> str:
    return quote(text, safe="")


def _plain_id(id: str | int) -> str | int:
    """A text that would be read as something else says that it is one."""
    return f"str:{id}" if isinstance(id, str) and id.startswith(("int:", "str:")) else id


def _id(id: str | int) -> str:
    return f"int:{id}" if isinstance(id, int) else _part(str(_plain_id(id)))


def _subscription(found: Mapping[str, Any]) -> Subscription:
    return Subscription(found["id"], found["subscriber"], found["expression"], found["data"], tuple(found["tags"]))


def _delivery(found: Mapping[str, Any]) -> Delivery:
    known = {name: found[name] for name in Delivery.__dataclass_fields__ if name in found}
    return Delivery(**{**known, "tags": tuple(found.get("tags", ()))})
