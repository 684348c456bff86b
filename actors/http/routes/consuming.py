"""Deliveries: polling, settling, streaming, dead letters."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from actors.http.encoding import JSON, decoded, delivery_json, delivery_plain
from actors.http.problems import HttpError
from actors.http.requests import Request, Response
from actors.http.streams.event_stream import StreamOptions
from actors.mailboxes.delivery import AckReport, DeadLetter, Receipt

if TYPE_CHECKING:
    from actors.http.application import Application

__all__ = ["dead_letters", "mailbox", "poll", "purge", "redrive", "settling", "stream"]

MOST_POLLED, LONGEST_WAIT = 10_000, 60.0
LONGEST_DELAY = 7 * 86_400.0
MOST_RECEIPTS = 20_000


def subscriber_of(request: Request) -> str:
    """Returns the subscriber that the client acts as. Raises HttpError if it may not."""
    subscriber = request.path["subscriber"]
    request.client.check_subscriber(subscriber)
    return subscriber


async def poll(app: Application, request: Request) -> Response:
    subscriber = subscriber_of(request)
    limit = request.whole("limit", 100, 1, MOST_POLLED)
    ends = time.monotonic() + request.seconds("wait", 0.0, LONGEST_WAIT)
    with_data = request.flag("data")
    visible = (
        None
        if request.query("visibility_timeout") is None
        else request.seconds("visibility_timeout", 30.0, LONGEST_DELAY)
    )
    while True:
        found = await app.backend.poll(subscriber, limit, visible)
        left = ends - time.monotonic()
        if found or left <= 0 or app.ending:
            break
        await app.wakeups.wait(subscriber, left)
        app.check_valid(request.client)
    if found:
        app.wakeups.wake_in(subscriber, found[0].visible_until - time.time())
    carried: list[dict[str, Any] | None] = [None] * len(found)
    if with_data and found:
        carried = list(await app.backend.carried(subscriber, found))
    if not found:
        warning = await app.known.warning(subscriber, request.client)
        return Response({"items": []} if warning is None else {"items": [], "warning": warning})
    if request.answer_kind == JSON:
        return Response(b'{"items":[%s]}' % b",".join(map(delivery_json, found, carried)), kind=JSON)
    return Response({"items": [delivery_plain(*each) for each in zip(found, carried, strict=True)]})


async def stream(app: Application, request: Request) -> Response | None:
    """Sends deliveries as server-sent events (`streams.event_stream`)."""
    subscriber = subscriber_of(request)
    ack = request.query("ack") or "auto"
    if ack not in ("auto", "manual"):
        raise HttpError(422, f"ack must be auto or manual, not {ack!r}", setting="ack")
    window = request.whole("window", 10_000, 1, 20_000)
    given = request.header("last-event-id") or request.query("last_event_id")
    if given is not None and not (given.isascii() and given.isdigit() and len(given) < 20):
        raise HttpError(422, f"Last-Event-ID must be the id of a message, not {given[:40]!r}")
    if request.scope["method"] == "HEAD":
        return Response(b"", kind="text/event-stream; charset=utf-8")  # without a body, what it takes would be lost
    app.backend.server  # noqa: B018 - raises if there is none
    how = StreamOptions(ack == "manual", window, request.flag("data"))
    await app.streams.serve(request, subscriber, how, int(given) if given else None)
    return None


def settling(method: str) -> Any:
    """Returns the handler of ack, nack, release or extend."""

    async def settle(app: Application, request: Request) -> Response:
        subscriber = subscriber_of(request)
        given = await request.fields("receipts")
        receipts = _receipts(given["receipts"])
        arguments: tuple[Any, ...] = ()
        delay = _number(given, "delay" if method == "nack" else "seconds", 0.0 if method == "nack" else 30.0)
        if method == "nack":
            reason = given.get("reason", "refused")
            if not isinstance(reason, str):
                raise HttpError(422, "reason must be a text", setting="reason")
            arguments = (delay, reason[:500])
        elif method == "extend":
            arguments = (delay,)
        report = await app.backend.settle(method, subscriber, receipts, *arguments)
        if method != "extend":
            app.streams.settled(subscriber, receipts)
        if method in ("nack", "extend") and report.accepted:
            app.wakeups.wake_in(subscriber, delay)
        return Response(_report(report))

    return settle


def _receipts(given: Any) -> list[Receipt]:
    if not isinstance(given, list) or len(given) > MOST_RECEIPTS:
        raise HttpError(422, f"receipts must be a list of at most {MOST_RECEIPTS:,} receipts", setting="receipts")
    found = []
    for receipt in given:
        sequence, separator, lease = receipt.partition("-") if isinstance(receipt, str) else ("", "", "")
        if not (separator and sequence.isdecimal() and lease.isdecimal() and len(receipt) < 45):
            raise HttpError(
                422, f"a receipt is what a delivery has as its receipt, not {receipt!r}", setting="receipts"
            )
        found.append(Receipt(int(sequence), int(lease)))
    return found


def _number(given: dict[str, Any], name: str, default: float) -> float:
    value = given.get(name, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LONGEST_DELAY:
        raise HttpError(422, f"{name} must be a number of seconds from 0 to {LONGEST_DELAY:g}", setting=name)
    return float(value)


def _report(report: AckReport) -> dict[str, Any]:
    stale = [
        {"position": each.position, "receipt": f"{each.receipt.sequence}-{each.receipt.lease}", "reason": each.reason}
        for each in report.stale
    ]
    return {"accepted": report.accepted, "stale": stale}


async def mailbox(app: Application, request: Request) -> Response:
    """Returns the statistics of a mailbox."""
    subscriber = request.path["subscriber"]
    if not request.client.may("read"):
        request.client.check_subscriber(subscriber)
    (found,) = await app.backend.ask("mailboxes", "mailbox_stats", subscriber)
    return Response(asdict(found))


async def dead_letters(app: Application, request: Request) -> Response:
    subscriber = subscriber_of(request)
    limit = request.whole("limit", 100, 1, MOST_POLLED)
    found: list[DeadLetter] = await app.backend.ask("mailboxes", "dead_letters", subscriber, limit)
    return Response({"items": [delivery_plain(each) for each in found]})


async def redrive(app: Application, request: Request) -> Response:
    return Response({"redriven": await _of_dead(app, request, "redrive")})


async def purge(app: Application, request: Request) -> Response:
    return Response({"purged": await _of_dead(app, request, "purge_dead")})


async def _of_dead(app: Application, request: Request, method: str) -> int:
    """Calls a method for dead letters: all, or those whose sequences are in the body."""
    subscriber = subscriber_of(request)
    body = await request.body()
    sequences = None
    if body.strip():
        given = decoded(body, request.kind)
        sequences = given.get("sequences") if isinstance(given, dict) else 0
        if sequences is not None and not (isinstance(sequences, list) and all(type(each) is int for each in sequences)):
            raise HttpError(422, "sequences must be a list of whole numbers", setting="sequences")
    return int(await app.backend.ask("mailboxes", method, subscriber, sequences))
