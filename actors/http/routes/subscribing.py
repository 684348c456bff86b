"""Subscriptions and priority rules: adding, replacing, removing, listing, loading many."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from actors.http.problems import HttpError, problem_of, rejection_of
from actors.http.requests import Request, Response
from actors.http.routes.publishing import NDJSON, keyed, portions_of
from actors.registry.columns import Page, StoredSubscription
from ray_pubsub.errors import UnknownSubscriptionError

if TYPE_CHECKING:
    from actors.http.application import Application

__all__ = [
    "add_rule", "check_expression", "get_subscription", "list_rules", "list_subscriptions", "load", "put_subscription", "remove_rule",
    "remove_subscriber", "subscribe", "unsubscribe", "unsubscribe_tagged",
]  # fmt: skip

MOST_SEARCHED = 20_000
"""The most subscriptions examined for one page of a search."""
MOST_REJECTIONS = 1000
LOAD_PORTION = 4 << 20
FIELDS = ("id", "subscriber", "expression", "data", "tags")
KNOWN = {*FIELDS, "kind", "shard", "version"}
"""With what a listing has beside them, which may come back."""


def id_of(text: str) -> str | int:
    """Returns the id in a path: a text, or `int:7` for the number 7; `str:int:7` is the text int:7."""
    if text.startswith("str:"):
        return text[4:]
    if text.startswith("int:"):
        try:
            return int(text[4:])
        except ValueError:
            raise HttpError(422, f"int: is followed by a whole number, not {text[4:]!r}") from None
    return text


def shown(found: StoredSubscription) -> dict[str, Any]:
    return {
        "id": found.id,
        "subscriber": found.subscriber,
        "expression": found.expression,
        "kind": found.kind,
        "shard": found.shard,
        "version": found.version,
        "data": found.data,
        "tags": list(found.tags),
    }


def mistake_in(given: Any, *needed: str) -> str | None:
    """Returns what is wrong with the fields of a subscription, if anything is. A misspelt one would get lost without a word."""
    if not isinstance(given, dict):
        return "a subscription is an object"
    if missing := [name for name in needed if name not in given]:
        return f"a subscription lacks {', '.join(missing)}"
    if unknown := given.keys() - KNOWN:
        return f"a subscription has no {', '.join(sorted(map(str, unknown)))}; it has {', '.join(FIELDS)}"
    return None


async def subscribe(app: Application, request: Request) -> Response:
    """Adds a subscription. The same Idempotency-Key leads to the same generated id."""
    given = await request.fields("subscriber", "expression")
    id = given.get("id")
    if id is None:
        key = keyed(request)
        id = uuid.uuid4().hex if key is None else uuid.uuid5(uuid.NAMESPACE_OID, key).hex
    return await _put(app, request, id, given)


async def put_subscription(app: Application, request: Request) -> Response:
    return await _put(app, request, id_of(request.path["id"]), await request.fields("subscriber", "expression"))


async def _put(app: Application, request: Request, id: Any, given: dict[str, Any]) -> Response:
    if (wrong := mistake_in(given)) is not None:
        raise HttpError(422, wrong)
    request.client.check_subscriber(given["subscriber"])
    tags = given.get("tags")
    if tags is not None and not isinstance(tags, list):
        raise HttpError(422, "tags must be a list of texts", setting="tags")
    carried = {"data": given.get("data"), "tags": tags or ()}
    if request.client.may("subscribe:*"):
        await app.backend.run(app.backend.server.subscribe, given["subscriber"], given["expression"], id=id, **carried)
    else:
        await _replace_own(
            app, request, id, (given["subscriber"], given["expression"], id, carried["data"], tags or ())
        )
    facts = {"id": id, "subscriber": given["subscriber"], "expression": given["expression"]}
    return Response({**facts, **{name: value for name, value in carried.items() if value}}, 201)


async def _replace_own(app: Application, request: Request, id: Any, subscription: tuple[Any, ...]) -> None:
    """Ids are shared by all clients: a client must not replace a subscription of a subscriber that it may not act for. The registry
    compares the owner that was checked here with that of the moment, and if somebody was faster, the new one is checked."""
    while True:
        try:
            owner: str | None = (await app.backend.ask("registry", "get", id)).subscriber
        except UnknownSubscriptionError:
            owner = None
        if owner is not None:
            request.client.check_subscriber(owner)
        if await app.backend.ask("registry", "subscribe_as", owner, *subscription):
            return


async def get_subscription(app: Application, request: Request) -> Response:
    return Response(shown(await _own(app, request)))


async def unsubscribe(app: Application, request: Request) -> Response:
    while True:
        try:
            found = await _own(app, request)
        except UnknownSubscriptionError:
            return Response({"removed": False})
        if await app.backend.ask("registry", "unsubscribe_as", found.subscriber, found.id):
            return Response({"removed": True})


async def _own(app: Application, request: Request) -> StoredSubscription:
    found: StoredSubscription = await app.backend.ask("registry", "get", id_of(request.path["id"]))
    if not request.client.may("read") or request.scope["method"] != "GET":
        request.client.check_subscriber(found.subscriber)
    return found


async def unsubscribe_tagged(app: Application, request: Request) -> Response:
    """Removes all subscriptions that have a tag, of all subscribers."""
    request.client.check("subscribe:*")
    tag = request.query("tag")
    if tag is None:
        raise HttpError(422, "name the tag of the subscriptions to remove: ?tag=…", setting="tag")
    return Response({"removed": await app.backend.run(app.backend.server.unsubscribe_many, tag=tag)})


async def list_subscriptions(app: Application, request: Request) -> Response:
    subscriber, search = request.query("subscriber"), (request.query("search") or "").lower()
    tag = request.query("tag")
    if subscriber is None or not request.client.may(f"subscribe:{subscriber}"):
        request.client.check("read")
    after, limit = request.whole("after", 0, 0, 2**62), request.whole("limit", 100, 1, 1000)
    items: list[StoredSubscription] = []
    next_page: int | None = after
    looked = 0
    while next_page is not None and len(items) < limit and looked < MOST_SEARCHED:
        page: Page = await app.backend.ask("registry", "page", subscriber, next_page, 1000 if search else limit, tag)
        looked += len(page.items)
        next_page = page.after
        for item in page.items:
            if not search or search in _searched(item):
                items.append(item)
                if len(items) == limit:
                    rest = item is not page.items[-1]
                    next_page = item.number if rest or page.after is not None else None
                    break
    return Response({"items": [shown(item) for item in items], "after": next_page, "looked_at": looked})


def _searched(item: StoredSubscription) -> str:
    carried = "" if item.data is None else json.dumps(item.data, ensure_ascii=False)
    return "\n".join([str(item.id), item.subscriber, item.expression, *item.tags, carried]).lower()


async def remove_subscriber(app: Application, request: Request) -> Response:
    subscriber = request.path["subscriber"]
    request.client.check_subscriber(subscriber)
    return Response({"removed": await app.backend.run(app.backend.server.remove_subscriber, subscriber)})


async def check_expression(app: Application, request: Request) -> Response:
    """Checks an expression without adding anything. If it is not valid, the response is the error's document, with the position for a
    caret."""
    given = await request.fields("expression")
    expression = given["expression"]
    if not isinstance(expression, str):
        raise HttpError(422, "expression must be a text", setting="expression")
    await app.backend.run(app.backend.server.settings.shapes().parse, expression)  # a large one takes its time
    return Response({"valid": True})


# ---------------------------------------------------------------------------------------------------------------- loading many


async def load(app: Application, request: Request) -> Response:
    """Loads subscriptions from NDJSON: {"id", "subscriber", "expression"} in every line, optionally with data and tags. Each portion is
    stored before the next is read."""
    if request.kind not in NDJSON:
        raise HttpError(415, f"subscriptions are loaded as {NDJSON[0]}, not {request.kind}", accepted=list(NDJSON))
    request.client.check("subscribe:*")
    added, lines, rejected = 0, 0, 0
    rejections: list[dict[str, Any]] = []
    async for portion in portions_of(request, app.settings.max_line, LOAD_PORTION):
        columns, positions, bad = _columns(portion, lines)
        ids, subscribers, expressions, data, tags = columns
        report = await app.backend.run(
            app.backend.server.subscribe_many,
            ids,
            expressions,
            subscriber=subscribers,
            data=data,
            tags=tags,
            progress=False,
        )
        added += report.added
        found = [*bad, *(rejection_of(each.at(positions[each.position])) for each in report.rejections)]
        rejected += len(found)
        rejections += sorted(found, key=lambda each: each["position"])[: MOST_REJECTIONS - len(rejections)]
        lines += portion.count(b"\n") + (not portion.endswith(b"\n"))
    return Response({"added": added, "rejected": rejected, "lines": lines, "rejections": rejections})


def _columns(portion: bytes, first: int) -> tuple[list[Any], list[int], list[dict[str, Any]]]:
    """Returns ids, subscribers, expressions, data and tags (None if no line has any); the line number of each; and the lines that are
    not subscriptions. Lines count from 0."""
    columns: list[list[Any]] = [[], [], [], [], []]
    positions: list[int] = []
    bad: list[dict[str, Any]] = []
    for number, line in enumerate(portion.splitlines(), first):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
        except (ValueError, RecursionError) as error:
            bad.append(_bad_line(number, None, f"this line is not JSON: {error}"))
            continue
        if (wrong := mistake_in(given, "id", "subscriber", "expression")) is not None:
            bad.append(_bad_line(number, given.get("id") if isinstance(given, dict) else None, wrong))
            continue
        for column, name in zip(columns, FIELDS, strict=True):
            column.append(given.get(name))
        positions.append(number)
    carried = (column if any(value is not None for value in column) else None for column in columns[3:])
    return [*columns[:3], *carried], positions, bad


def _bad_line(number: int, id: Any, reason: str) -> dict[str, Any]:
    return {
        "position": number,
        "id": id if isinstance(id, str | int) else None,
        "error": problem_of(HttpError(422, reason)).document,
    }


# ---------------------------------------------------------------------------------------------------------------- rules


async def list_rules(app: Application, request: Request) -> Response:
    found = await app.backend.ask("registry", "rules")
    return Response({"items": [{"id": each.id, "level": each.level, "expression": each.expression} for each in found]})


async def add_rule(app: Application, request: Request) -> Response:
    given, id = await request.fields("level", "expression"), id_of(request.path["id"])
    await app.backend.run(app.backend.server.prioritize, id, given["level"], given["expression"])
    return Response({"id": id, "level": given["level"], "expression": given["expression"]}, 201)


async def remove_rule(app: Application, request: Request) -> Response:
    found = await app.backend.run(app.backend.server.unprioritize, id_of(request.path["id"]))
    return Response({"removed": found})
