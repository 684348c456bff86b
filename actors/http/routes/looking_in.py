"""Explain, statistics, back-tests, health, metrics, and the files of the console."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from actors.http.problems import HttpError, problem_of
from actors.http.prometheus import CONTENT_TYPE, exposition
from actors.http.recent_events import backtest
from actors.http.requests import Request, Response
from actors.http.routes.subscribing import id_of
from ray_pubsub.errors import RayPubSubError
from ray_pubsub.index.explanation import Explanation, explain_event

if TYPE_CHECKING:
    from actors.http.application import Application

__all__ = ["console", "console_file", "explain", "health", "metrics", "readiness", "run_backtest", "stats"]

MOST_MATCHES = 200
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)


async def explain(app: Application, request: Request) -> Response:
    """With an id or an expression, explains why it does or does not match the event. Without, returns what matches, and how, shard by
    shard."""
    given = await request.fields("event")
    event, server = given["event"], app.backend.server
    if not isinstance(event, dict):
        raise HttpError(422, "event must be an object", setting="event")
    if given.get("expression") is not None:
        shapes, text = server.settings.shapes(), str(given["expression"])
        return Response(_explanation(await app.backend.run(lambda: explain_event(shapes.parse(text).tree, event))))
    if given.get("id") is not None:
        id = id_of(given["id"]) if isinstance(given["id"], str) else given["id"]
        return Response(_explanation(await app.backend.run(server.explain, event, id)))
    plan = await app.backend.run(server.explain, event)
    result = await app.backend.run(server.publish, event, deliver=False)
    names = result.subscribers.tolist()
    matched = [{"id": id, "subscriber": name} for id, name in zip(result.subscription_ids.tolist(), names, strict=True)]
    return Response(
        {
            "plan": plan.to_dict(),
            "matches": len(matched),
            "matched": matched[:MOST_MATCHES],
            "priority": result.priorities.tolist()[0] if len(result.event_ids) else None,
            "errors": [problem_of(error).document for error in result.errors],
        }
    )


def _explanation(found: Explanation) -> dict[str, Any]:
    return {
        "expression": found.expression,
        "truth": found.truth,
        "reason": found.reason,
        "parts": [_explanation(part) for part in found.parts],
    }


async def run_backtest(app: Application, request: Request) -> Response:
    given = await request.fields("expression")
    if not isinstance(given["expression"], str):
        raise HttpError(422, "expression must be a text", setting="expression")
    found = await app.backend.run(
        backtest, given["expression"], app.recent.lines(), app.backend.server.settings.ignore_case
    )
    return Response(found.document())


async def stats(app: Application, request: Request) -> Response:
    found = (await app.stats.get()).to_dict()
    found["http"] = {
        "streams": len(app.streams),
        "recent_events": len(app.recent),
        "webhooks": app.webhooks.listed() if request.client.may("admin") else [],
        "client": request.client.name,
        "scopes": sorted(request.client.scopes),
        "levels": list(app.backend.server.settings.levels),
    }
    return Response(found)


async def health(app: Application, request: Request) -> Response:
    """Reports that this process answers."""
    return Response({"status": "ok"})


async def readiness(app: Application, request: Request) -> Response:
    """Reports that the server is connected and its registry answers."""
    await app.backend.ask("registry", "health", timeout=5.0)
    return Response({"status": "ready", "server": app.settings.server})


async def metrics(app: Application, request: Request) -> Response:
    try:
        found = await app.stats.get()
    except RayPubSubError:
        found = None
    return Response(exposition(app, found), kind=CONTENT_TYPE)


async def console(app: Application, request: Request) -> Response:
    return _file("index.html")


async def console_file(app: Application, request: Request) -> Response:
    return _file(request.path["file"])


def _file(name: str) -> Response:
    content = _content(name)
    if content is None:
        raise HttpError(404, f"the console has no file {name}")
    kind = CONTENT_TYPES[name[name.rindex(".") :]]
    headers = {
        "content-security-policy": POLICY,
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
        "cache-control": "no-cache",
    }
    return Response(content, kind=kind, headers=headers)


@cache
def _listed() -> dict[str, bytes]:
    """Reads the files once, so that only files of the package can be requested."""
    folder = files("actors.http") / "console"
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith(tuple(CONTENT_TYPES))}


def _content(name: str) -> bytes | None:
    return _listed().get(name)
