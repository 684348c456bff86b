"""Webhooks and tokens, for admins. Other clients may manage the webhooks of subscribers that they may act for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from actors.http.problems import HttpError
from actors.http.requests import Request, Response
from actors.http.tokens import check_client_name, checked_scopes, new_token, token_hash
from actors.http.webhooks.webhook import Webhook, webhook_of
from ray_pubsub.errors import SettingError

if TYPE_CHECKING:
    from actors.http.application import Application

__all__ = ["get_webhook", "list_tokens", "list_webhooks", "put_token", "put_webhook", "remove_token", "remove_webhook"]

MOST_WEBHOOKS = 10_000
"""All of them are in one file, which is written at every change, and each has a task."""


async def list_webhooks(app: Application, request: Request) -> Response:
    may = request.client.may
    return Response({"items": [each for each in app.webhooks.listed() if may(f"subscribe:{each['subscriber']}")]})


async def put_webhook(app: Application, request: Request) -> Response:
    """Adds or replaces a webhook. The response has the secret if it is new."""
    given, id = await request.fields("subscriber", "url"), request.path["id"]
    while True:
        before = app.webhooks.get(id)
        if before is not None:
            request.client.check_subscriber(before.subscriber)
        elif len(app.webhooks) >= MOST_WEBHOOKS:
            raise SettingError("id", f"would be one more than {MOST_WEBHOOKS:,} webhooks, the most that there may be")
        webhook = webhook_of(id, given, before)
        request.client.check_subscriber(webhook.subscriber)
        if await app.webhooks.put(webhook, before):
            break
    shown = webhook.shown()
    if before is None or before.secret != webhook.secret:
        shown["secret"] = webhook.secret
    return Response(shown, 201 if before is None else 200)


async def get_webhook(app: Application, request: Request) -> Response:
    found = _own(app, request)
    return Response(next(each for each in app.webhooks.listed() if each["id"] == found.id))


async def remove_webhook(app: Application, request: Request) -> Response:
    while not await app.webhooks.remove(_own(app, request)):
        pass
    return Response({"removed": True})


def _own(app: Application, request: Request) -> Webhook:
    found = app.webhooks.get(request.path["id"])
    if found is None:
        raise HttpError(404, f"there is no webhook {request.path['id']!r}")
    request.client.check_subscriber(found.subscriber)
    return found


async def list_tokens(app: Application, request: Request) -> Response:
    return Response({"items": app.tokens.listed()})


async def put_token(app: Application, request: Request) -> Response:
    """Creates or replaces the token of a client. It is shown in this response only."""
    given, name = await request.fields("scopes"), request.path["name"]
    if name in app.settings.tokens or name in ("admin", "open"):
        raise SettingError("name", f"{name!r} is given in the settings, and is changed there")
    token = new_token()
    scopes = sorted(checked_scopes(given["scopes"]))
    hashed = token_hash(token)
    check_client_name(name)
    async with app.changing_tokens:
        await asyncio.to_thread(app.file.put, "tokens", name, {"hash": hashed, "scopes": scopes})
        app.tokens.add(name, hashed, scopes)
    app.end_client(name)
    return Response({"name": name, "scopes": scopes, "token": token}, 201)


async def remove_token(app: Application, request: Request) -> Response:
    name = request.path["name"]
    if name in app.settings.tokens or name in ("admin", "open"):
        raise SettingError("name", f"{name!r} is given in the settings, and is removed there")
    async with app.changing_tokens:
        await asyncio.to_thread(app.file.put, "tokens", name, None)
        removed = app.tokens.remove(name)
    app.end_client(name)
    return Response({"removed": removed})
