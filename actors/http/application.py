"""The ASGI application: finds the route, checks the token, and turns results and errors into responses."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

from actors.http.backend import Backend
from actors.http.connections.whole_messages import write_document
from actors.http.encoding import JSON, MSGPACK, encoded
from actors.http.known_subscribers import KnownSubscribers
from actors.http.problems import HttpError, problem_of
from actors.http.recent_events import RecentEvents
from actors.http.requests import Receive, Request, Response, Send
from actors.http.route import Route, RouteTable
from actors.http.routes.table import ROUTES
from actors.http.same_origin import check_same_origin
from actors.http.settings import HttpSettings
from actors.http.state_file import StateFile
from actors.http.stats_cache import StatsCache
from actors.http.streams.event_stream import EventStreams
from actors.http.streams.wakeups import Wakeups
from actors.http.tokens import Client, Tokens, new_token, token_hash
from actors.http.webhooks.worker import WebhookWorkers
from ray_pubsub.errors import RayPubSubError

__all__ = ["Application"]

logger = logging.getLogger(__name__)

ANYBODY = Client("open", frozenset({"admin"}))
DOCUMENTS = {JSON: JSON.encode(), MSGPACK: MSGPACK.encode()}
NO_STORE = (b"cache-control", b"no-store")
NO_SNIFFING = (b"x-content-type-options", b"nosniff")


class Application:
    """The ASGI application, with everything that requests share."""

    def __init__(self, settings: HttpSettings, may_exit: bool = False) -> None:
        self.settings = settings
        self.file = StateFile(settings.folder)
        stored = self.file.part("tokens")
        self.tokens = Tokens(settings.tokens, stored)
        if not settings.open and not settings.tokens:
            token, _ = self.file.admin_token(new_token)
            self.tokens.add("admin", token_hash(token), ["admin"])
        self.changing_tokens = asyncio.Lock()
        """Changes are stored and used one after another: what is used in the end is what is stored."""
        self.backend = Backend(settings.server, settings.address, may_exit)
        self.wakeups = Wakeups(self.backend)
        self.known = KnownSubscribers(self.backend)
        self.streams = EventStreams(self.backend, self.wakeups, self.known, settings.settle, settings.heartbeat)
        self.webhooks = WebhookWorkers(
            self.backend, self.wakeups, self.file, settings.allow_networks, settings.webhook_timeout,
            settings.webhook_retry,
        )  # fmt: skip
        self.stats = StatsCache(self.backend)
        self.recent = RecentEvents(settings.recent_events)
        self.ending = False
        """Whether the process is about to end, so that nobody should wait any longer."""
        self.answered: Counter[tuple[str, int]] = Counter()
        """The number of responses by path and status."""
        self._table = RouteTable(ROUTES)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        request = Request(scope, receive, send, self.settings.max_body)
        path = "unknown"
        try:
            route, request.path = self._table.find(scope)
            path = route.path
            request.client = self._client(route, request)
            response = await route.handler(self, request)
            if response is None:
                self.answered[path, 200] += 1
                return
        except ConnectionResetError:
            return
        except (RayPubSubError, HttpError) as error:
            response = _failure(error)
        except Exception as error:
            logger.exception("%s %s", scope["method"], path)
            response = _failure(error)
        self.answered[path, response.status] += 1
        await self._send(request, response)

    async def start(self) -> None:
        self.backend.start(asyncio.get_running_loop())
        self.wakeups.start()
        self.streams.start()
        self.webhooks.start()

    async def stop(self) -> None:
        await self.webhooks.stop()
        await self.streams.stop()
        await self.wakeups.stop()
        await asyncio.get_running_loop().run_in_executor(None, self.backend.close)
        self.file.close()

    def check_valid(self, client: Client) -> None:
        """Raises HttpError if the client's token was revoked while its request waited."""
        if not self.settings.open:
            self.tokens.check_valid(client)

    def end_client(self, name: str) -> None:
        """Closes the streams of a client whose token was revoked or replaced. Polls that wait notice it when they wake."""
        self.streams.end_client(name)

    def end_waits(self) -> None:
        """Ends streams, and has polls that wait answered with what there is: otherwise they would be cut off when the process ends."""
        self.ending = True
        self.streams.end_all()
        self.wakeups.wake_everybody()

    async def _other(self, scope: Any, receive: Receive, send: Send) -> None:
        """Starts and stops with the process."""
        if scope["type"] != "lifespan":
            raise NotImplementedError(f"{scope['type']} is not spoken here")
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _client(self, route: Route, request: Request) -> Client:
        if self.settings.open:
            site = None if route.scope is None else request.header("sec-fetch-site")
            check_same_origin(request.header("host"), request.header("origin"), self.settings.allow_hosts, site)
            return ANYBODY
        if route.scope is None:
            return request.client
        client = self.tokens.client(request.header("authorization"))
        client.check(route.scope)
        return client

    async def _send(self, request: Request, response: Response) -> None:
        kind, body = response.kind, response.body
        if kind is None:
            kind = request.answer_kind
            body = encoded(body, kind)
        elif kind == "application/problem+json":
            body = encoded(body, JSON)
        plain = response.status == 200 and kind in DOCUMENTS and not response.headers
        if plain and write_document(request.send, DOCUMENTS[kind], body):
            return
        headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
        if "cache-control" not in response.headers:
            headers.append(NO_STORE)
        headers.append(NO_SNIFFING)
        for name, value in response.headers.items():
            headers.append((name.encode(), value.encode("latin-1", "replace")))
        if request.scope["method"] == "HEAD":
            body = b""
        await request.send({"type": "http.response.start", "status": response.status, "headers": headers})
        await request.send({"type": "http.response.body", "body": body})


def _failure(error: Exception) -> Response:
    problem = problem_of(error)
    headers = {name.decode(): value.decode() for name, value in problem.headers}
    return Response(problem.document, problem.status, "application/problem+json", headers)
