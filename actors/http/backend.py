"""The connection to the server. It is made in the background, and made again after the server or the head of its cluster was lost.

Meanwhile every call raises UnavailableError at once, and calls in flight are cancelled. Ray itself would wait a minute for each.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from actors.client.server import Server
from actors.client.starting import connect
from actors.cluster.probe import answers as head_answers
from actors.mailboxes.delivery import AckReport, Delivery, Receipt
from actors.transport.calls import answer, answer_async, sent
from ray_pubsub.errors import ClusterError, RayPubSubError, UnavailableError
from ray_pubsub.model.metadata import data_of, tags_of

__all__ = ["LOST", "Backend"]

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
THREADS = 48
PROBE_EVERY, PROBE_TIMEOUT, PROBES = 1.0, 1.0, 2
"""The seconds between probes of the cluster's head, the timeout of a probe, and the number of probes in a row that must fail."""
ASK_EVERY, ASK_TIMEOUT = 5.0, 5.0
RECONNECT_EVERY = 1.0
LONGEST_CLOSE = 20.0
LOST = "the server is lost"
"""The message with which calls in flight are cancelled."""
RESTART = 75
"""The exit code of a process that wants to be restarted (EX_TEMPFAIL)."""


class Backend:
    """One connection for all requests. `server` may be another object from call to call."""

    def __init__(self, name: str, address: str | None, may_exit: bool = False) -> None:
        """`may_exit`: if Ray cannot be disconnected, the process ends, to be restarted by its supervisor."""
        self.name = name
        self._address = address
        self._may_exit = may_exit
        self._server: Server | None = None
        self._reason = "connecting"
        self._threads = ThreadPoolExecutor(THREADS, "http-call")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._closed = threading.Event()
        self._watching: threading.Thread | None = None
        self.connections = 0
        """The number of times that the server was found. A follower starts over when it has grown."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watching = threading.Thread(target=self._watch, name="http-connection", daemon=True)
        self._watching.start()

    def close(self) -> None:
        self._closed.set()
        if self._watching is not None:
            self._watching.join(LONGEST_CLOSE)
        self._threads.shutdown(wait=False, cancel_futures=True)
        server, self._server = self._server, None
        if server is not None:
            server.close()

    @property
    def server(self) -> Server:
        """The server. Raises UnavailableError if there is none at the moment."""
        server = self._server
        if server is None:
            raise UnavailableError(f"the server {self.name!r}", self._reason)
        return server

    @property
    def ready(self) -> bool:
        return self._server is not None

    # ------------------------------------------------------------------------------------------------------------ calls

    @contextmanager
    def _counted(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._in_flight.add(task)
        try:
            yield
        except asyncio.CancelledError as error:
            self._raise_if_lost(task, error)
            raise
        finally:
            self._in_flight.discard(task)

    def _raise_if_lost(self, task: asyncio.Task[Any], error: asyncio.CancelledError) -> None:
        if error.args and error.args[0] == LOST:
            task.uncancel()
            raise UnavailableError(f"the server {self.name!r}", LOST) from None

    async def run(self, call: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """Runs a blocking call in a thread: `run(backend.server.subscribe, …)`."""
        loop = asyncio.get_running_loop()
        with self._counted():
            return await loop.run_in_executor(self._threads, partial(call, *arguments, **named))

    async def ask_server(self, answer: Coroutine[Any, Any, Result]) -> Result:
        """Waits for a coroutine of the server: `ask_server(backend.server.publish_async(…))`."""
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._in_flight.add(task)
        try:
            return await answer
        except asyncio.CancelledError as error:
            self._raise_if_lost(task, error)
            raise
        finally:
            self._in_flight.discard(task)

    async def ask(self, actor: str, method: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Calls a method of the registry or the mailboxes without a thread, again while its process restarts."""
        server = self.server
        ends = time.monotonic() + (server.settings.timeout if timeout is None else timeout)
        pause = 0.02
        with self._counted():
            while True:
                try:
                    reference = sent(getattr(getattr(server, actor), method), *arguments)
                except RayPubSubError:
                    raise
                except Exception as error:  # Ray has no exception class for an actor that is gone for good
                    raise UnavailableError(f"the {actor}", str(error).partition("\n")[0], gone=True) from None
                try:
                    return await answer_async(reference, f"the {actor}", max(0.1, ends - time.monotonic()))
                except UnavailableError as error:
                    if error.gone or time.monotonic() + pause > ends:
                        raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, 0.5)

    async def poll(self, subscriber: str, limit: int, visible: float | None) -> list[Delivery]:
        """Returns the deliveries that wait now."""
        found = await self.ask("mailboxes", "poll", subscriber, limit, 0.0, visible)
        deliveries: list[Delivery] = found.deliveries()
        return deliveries

    async def carried(self, subscriber: str, deliveries: Sequence[Delivery]) -> list[dict[str, Any]]:
        """Returns the current data and tags of each delivery's subscription. If there is no answer, the deliveries are released."""
        try:
            found = await self.ask("registry", "metadata", [each.subscription_id for each in deliveries])
        except RayPubSubError:
            await self.settle("release", subscriber, [each.receipt for each in deliveries])
            raise
        return [{"data": data_of(each), "tags": list(tags_of(each))} for each in found]

    async def settle(self, method: str, subscriber: str, receipts: Iterable[Receipt], *arguments: Any) -> AckReport:
        """Settles deliveries; `method` is ack, nack, release or extend."""
        report: AckReport = await self.ask("mailboxes", method, subscriber, list(receipts), *arguments)
        return report

    # ------------------------------------------------------------------------------------------------------------ watching

    def _watch(self) -> None:
        while not self._closed.is_set():
            server = self._connected()
            if server is None:
                self._closed.wait(RECONNECT_EVERY)
                continue
            self._reason = "connected"
            self.connections += 1
            self._server = server
            logger.info("connected to the server %r at %s", self.name, server.address)
            why = self._watched(server)
            if self._closed.is_set():
                return
            logger.warning("lost the server %r: %s", self.name, why)
            self._lose(server, why)

    def _connected(self) -> Server | None:
        try:
            return connect(self.name, address=self._address)
        except RayPubSubError as error:
            self._reason = str(error)
        except Exception as error:  # Ray raises many exceptions, and the process must go on
            self._reason = f"cannot be reached: {type(error).__name__}: {error}"
            logger.debug("cannot connect", exc_info=True)
        return None

    def _watched(self, server: Server) -> str:
        """Watches the server until it is lost. Returns the reason."""
        failed, asked = 0, time.monotonic()
        while not self._closed.wait(PROBE_EVERY):
            failed = 0 if head_answers(server.address, PROBE_TIMEOUT) else failed + 1
            if failed >= PROBES:
                return f"the head of the Ray cluster at {server.address} does not answer"
            if time.monotonic() - asked >= ASK_EVERY and not failed:
                asked = time.monotonic()
                try:
                    answer(server.registry.health.remote(), "the registry", ASK_TIMEOUT)
                except UnavailableError as error:
                    if error.gone:
                        return str(error)
                except (
                    Exception
                ) as error:  # of Ray, if the actor is gone for good; or the registry cannot open its store
                    return str(error).partition("\n")[0]
        return "closed"

    def _lose(self, server: Server, why: str) -> None:
        self._reason = why
        self._server = None
        threads, self._threads = self._threads, ThreadPoolExecutor(THREADS, "http-call")
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._end_calls)
        threads.shutdown(wait=False, cancel_futures=True)
        leaving = threading.Thread(target=_leave, args=(server,), name="http-leaving", daemon=True)
        leaving.start()
        leaving.join(LONGEST_CLOSE)
        if leaving.is_alive() and self._may_exit:
            logger.error("Ray does not let go of the lost cluster; this process is started again")
            os._exit(RESTART)

    def _end_calls(self) -> None:
        for task in list(self._in_flight):
            task.cancel(LOST)


def _leave(server: Server) -> None:
    try:
        server.close()
    except (RayPubSubError, ClusterError, RuntimeError) as error:
        logger.debug("leaving the lost cluster: %s", error)
