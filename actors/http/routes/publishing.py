"""POST /v1/events: one event or many, as JSON, NDJSON, msgpack or CloudEvents.

The bytes of JSON go to the server as they came; no event becomes a dict on the way. NDJSON is published in portions while it arrives. Where
one portion ends depends on the body alone, so that a repetition under the same Idempotency-Key has the same portions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.client.publish_result import PublishResult
from actors.http.encoding import JSON, MSGPACK, decoded
from actors.http.json_array import documents_of_array
from actors.http.problems import HttpError, problem_of
from actors.http.requests import Request, Response
from actors.http.routes.cloud_events import binary_event, checked_batch, checked_envelope, idempotency_key_of
from actors.http.routes.publish_report import report_of_one
from ray_pubsub.errors import OverloadedError

if TYPE_CHECKING:
    from actors.http.application import Application

__all__ = ["NDJSON", "PUBLISHED", "keyed", "portions_of", "publish"]

NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-lines")
CLOUD_EVENT, CLOUD_BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
FORM = "application/x-www-form-urlencoded"
PUBLISHED = (JSON, NDJSON[0], MSGPACK, CLOUD_EVENT, CLOUD_BATCH)
PORTION = 1 << 20
"""The bytes of NDJSON in one publication."""
IN_FLIGHT = 3
READ_AT_ONCE = 1 << 16
"""The most bytes of a body that are read without a thread."""
SMALL = 8192
"""The most bytes that are prepared here; more would keep other requests waiting, and go to a thread, which takes longer for a few."""
MOST_ERRORS, MOST_RESULTS = 100, 10_000
LONGEST_KEY = 100


async def publish(app: Application, request: Request) -> Response:
    options = _Options(request)
    kind = request.kind
    if kind in NDJSON:
        return Response(await _publish_lines(app, request, options))
    body: Any = await request.body()
    single, key = True, options.key
    if b"ce-specversion" in request.headers:
        body, key = (
            binary_event(request, body, kind),
            key or idempotency_key_of(request.header("ce-source"), request.header("ce-id")),
        )
    elif kind == CLOUD_EVENT:
        envelope = checked_envelope(decoded(body, JSON))
        key = key or idempotency_key_of(envelope["source"], envelope["id"])
        body = _in_one_line(body)
    elif kind == CLOUD_BATCH:
        body, single = b"\n".join(await _read(app, checked_batch, body)), False
    elif kind in (MSGPACK, "application/x-msgpack"):
        events = await _read(app, partial(decoded, kind=MSGPACK), body)
        return await _publish_plain(app, request, options, events)
    elif kind != JSON:
        hint = "; with curl: --json, or -H 'Content-Type: …'" if kind == FORM else ""
        raise HttpError(415, f"events come as {', '.join(PUBLISHED)}, not {kind}{hint}", accepted=list(PUBLISHED))
    elif body.lstrip()[:1] == b"[":
        body, single = b"\n".join(await _read(app, documents_of_array, body)), False
    elif b"\n" in body:
        body = _in_one_line(body)
    if not body.strip():
        if single:
            raise HttpError(422, "the body is empty; an event is a JSON object")
        return _Total(options).response(single)
    result = await _published(app, body, options, key)
    app.recent.add(body)
    if single and not options.matches and request.answer_kind == JSON:
        report = report_of_one(result)
        if report is not None:
            return Response(report, kind=JSON)
    total = _Total(options)
    total.add(result)
    return total.response(single)


async def _read(app: Application, call: Callable[[bytes], Any], body: bytes) -> Any:
    """Calls a function that reads the whole body; if it is large in a thread, so that other requests are answered meanwhile."""
    return call(body) if len(body) <= READ_AT_ONCE else await app.backend.run(call, body)


def _in_one_line(document: bytes) -> bytes:
    """Returns a document that may span several lines as one line: line breaks in JSON are white space."""
    return document.replace(b"\r", b" ").replace(b"\n", b" ")


class _Options:
    """The options in the query and the headers."""

    event_id: str | None = None
    deliver = True
    strict = data = matches = False

    def __init__(self, request: Request) -> None:
        if request.scope["query_string"]:
            self.event_id = request.query("event_id")
            self.deliver = request.flag("deliver", True)
            self.strict = request.flag("strict")
            self.data = request.flag("data")
            self.matches = request.flag("matches") or self.data
        if self.matches:
            request.client.check("read")  # matches name subscriptions of all subscribers
        self.key = keyed(request) if b"idempotency-key" in request.headers else None

    def portion_key(self, request: Request, number: int) -> str | None:
        return self.key if not number else keyed(request, number)


def keyed(request: Request, portion: int = 0) -> str | None:
    """Returns the key made from the client's Idempotency-Key, for a portion of its request. Keys of two clients, or of a portion and of
    another request, do not collide, because a client's name has neither a colon nor a number sign."""
    given = request.header("idempotency-key")
    if given is None:
        return None
    if not 0 < len(given) <= LONGEST_KEY or not given.isprintable():
        raise HttpError(
            422, f"Idempotency-Key must be 1 to {LONGEST_KEY} printable characters", setting="idempotency_key"
        )
    return f"{request.client.name}#{portion}:{given}" if portion else f"{request.client.name}:{given}"


class _Total:
    """The sum of the results of all portions."""

    def __init__(self, options: _Options) -> None:
        self._options = options
        self.events = self.matches = self.bad = self.warnings = 0
        self._errors: list[dict[str, Any]] = []
        self._warnings: list[dict[str, Any]] = []
        self._results: list[dict[str, Any]] = []
        self._delivered: Any = None
        self._moment: int | None = None

    def add(self, result: PublishResult) -> None:
        for error in result.errors[: MOST_ERRORS - len(self._errors)]:
            self._errors.append(problem_of(error.at((error.position or 0) + self.events)).document)
        for warning in result.warnings[: MOST_ERRORS - len(self._warnings)]:
            position = (warning.position or 0) + self.events
            self._warnings.append({"position": position, "attribute": warning.attribute, "reason": warning.reason})
        if self._options.matches:
            self._add_results(result)
        if self._moment is None:
            self._moment = result.moment
        self.events += len(result.event_ids)
        self.matches += len(result)
        self.bad += len(result.errors)
        self.warnings += result.warning_count
        self._delivered = result.deliveries if self._delivered is None else self._delivered + result.deliveries

    def _add_results(self, result: PublishResult) -> None:
        matched_all: list[dict[str, Any]] = [
            {"id": id, "subscriber": name}
            for id, name in zip(result.subscription_ids.tolist(), result.subscribers.tolist(), strict=True)
        ]
        if self._options.data:
            for match, data, tags in zip(matched_all, result.data(), result.tags(), strict=True):
                match |= {"data": data, "tags": tags}
        offsets, priorities = result.offsets.tolist(), result.priorities.tolist()
        for place, event_id in enumerate(result.event_ids.tolist()[: MOST_RESULTS - len(self._results)]):
            matched = matched_all[offsets[place] : offsets[place + 1]]
            self._results.append({"event_id": event_id, "priority": priorities[place], "matches": matched})

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {"events": self.events, "matches": self.matches, "bad_events": self.bad}
        if self._moment is not None:
            found["moment"] = self._moment
        if self.warnings:
            found["warning_count"], found["warnings"] = self.warnings, self._warnings
        if self._delivered is not None:
            each = self._delivered
            found["deliveries"] = {
                "delivered": each.delivered, "duplicates": each.duplicates, "dead": each.dead, "dropped": each.dropped,
                "rejected": each.rejected, "rejected_subscribers": list(each.rejected_subscribers)[:MOST_ERRORS],
            }  # fmt: skip
        if self._errors:
            found["errors"] = self._errors
        if self._options.matches:
            found["results"] = self._results
        return found

    def response(self, single: bool) -> Response:
        """Returns the response. A single bad event is an error; among several it is reported."""
        if single and self._errors:
            return Response(self._errors[0], 422, "application/problem+json")
        return Response(self.document())


def _published(
    app: Application, body: bytes | list[Any], options: _Options, key: str | None
) -> Coroutine[Any, Any, PublishResult]:
    if type(body) is not bytes or len(body) > SMALL or options.data:
        return _published_in_thread(app, body, options, key)
    sent = app.backend.server.publish_json_async(
        body, event_id=options.event_id, deliver=options.deliver, strict=options.strict, idempotency_key=key
    )
    answer = app.backend.ask_server(sent)
    return _named(app, answer) if options.matches else answer


async def _named(app: Application, answer: Coroutine[Any, Any, PublishResult]) -> PublishResult:
    result = await answer
    if result.names is None:  # of many matches: asks a coordinator
        await app.backend.run(result.name_subscribers)
    return result


async def _published_in_thread(
    app: Application, body: bytes | list[Any], options: _Options, key: str | None
) -> PublishResult:
    server = app.backend.server
    call = server.publish_json if isinstance(body, bytes) else server.publish

    def publish_and_look_up() -> PublishResult:
        result = call(
            body, event_id=options.event_id, deliver=options.deliver, strict=options.strict, idempotency_key=key
        )
        if options.data:
            result.data()  # asks the registry in this thread; the result then has the data
        if options.matches:
            result.name_subscribers()
        return result

    return await app.backend.run(publish_and_look_up)


async def _publish_plain(app: Application, request: Request, options: _Options, events: Any) -> Response:
    """Publishes what msgpack decoded to: a map, or an array of maps."""
    single = isinstance(events, dict)
    listed = [events] if single else events
    if not isinstance(listed, list):
        raise HttpError(422, "msgpack events are a map, or an array of maps")
    total = _Total(options)
    if listed:
        total.add(await _published(app, listed, options, options.key))
    return total.response(single)


async def _publish_lines(app: Application, request: Request, options: _Options) -> dict[str, Any]:
    total = _Total(options)
    in_flight: deque[asyncio.Task[PublishResult]] = deque()
    number = 0
    try:
        async for portion in portions_of(request, app.settings.max_line):
            key = options.portion_key(request, number)
            in_flight.append(asyncio.create_task(_published(app, portion, options, key)))
            app.recent.add(portion)
            number += 1
            if len(in_flight) == IN_FLIGHT:
                total.add(await in_flight.popleft())
        while in_flight:
            total.add(await in_flight.popleft())
    except OverloadedError as error:
        key = request.header("idempotency-key")
        if total.events and key is not None:
            raise error.unfinished(total.events, key) from None
        if total.events:
            error.published = total.events
        raise
    finally:
        for task in in_flight:
            task.cancel()
        await asyncio.gather(*in_flight, return_exceptions=True)
    return total.document()


async def portions_of(request: Request, longest: int, size: int = PORTION) -> AsyncIterator[bytes]:
    """Yields whole lines of a body, about `size` bytes at a time. Raises HttpError for a line that is too long."""
    buffer = bytearray()
    size = max(size, longest + 1)
    async for chunk in request.chunks():
        buffer += chunk
        while len(buffer) >= size:
            end = buffer.rfind(b"\n", 0, size) + 1
            if not end:
                raise HttpError(413, f"a line is longer than {longest:,} bytes", limit=longest)
            yield bytes(buffer[:end])
            del buffer[:end]
    if buffer.strip():
        yield bytes(buffer)
