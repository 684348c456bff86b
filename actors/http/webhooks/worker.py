"""Sends the deliveries of webhooks, with retries: the mailbox counts the attempts, and has the dead letters."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import xxhash

from actors.http.backend import Backend
from actors.http.encoding import delivery_json
from actors.http.state_file import StateFile
from actors.http.streams.wakeups import Wakeups
from actors.http.webhooks.breaker import Breaker
from actors.http.webhooks.sending import Answer, send
from actors.http.webhooks.signing import signature
from actors.http.webhooks.target_address import target_of
from actors.http.webhooks.webhook import Webhook, webhook_of
from actors.mailboxes.delivery import Delivery
from ray_pubsub.errors import RayPubSubError

__all__ = ["WebhookWorkers", "retry_delay"]

logger = logging.getLogger(__name__)

LONGEST_DELAY = 3600.0
GONE = 410
SPARE = 30.0
"""The seconds for which a delivery is hidden from other consumers, beside the time of the request."""


def retry_delay(attempt: int, first: float, sequence: int) -> float:
    """Returns the seconds before the next attempt. They double with every attempt, up to an hour, and vary by a fifth with the sequence,
    so that not all deliveries come back at once."""
    spread = 0.8 + 0.4 * (xxhash.xxh3_64_intdigest(f"{sequence}/{attempt}".encode()) / 2**64)
    return float(min(first * 2 ** (attempt - 1), LONGEST_DELAY) * spread)


class WebhookWorker:
    """Sends the deliveries of one webhook."""

    def __init__(self, webhook: Webhook, workers: WebhookWorkers) -> None:
        self.webhook = webhook
        self.breaker = Breaker()
        self.sent = self.accepted = self.failed = 0
        self.last = ""
        """The outcome of the last request."""
        self._workers = workers
        self._target = target_of(webhook.url)
        self._under_way: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._task = asyncio.create_task(self._work())
        workers.wakeups.add(webhook.subscriber, self._woken.set)
        self._woken.set()

    async def stop(self) -> None:
        """Stops sending. Deliveries in flight come again."""
        self._workers.wakeups.remove(self.webhook.subscriber, self._woken.set)
        tasks = [self._task, *self._under_way]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def state(self) -> dict[str, Any]:
        return {
            "breaker": self.breaker.state(time.monotonic()),
            "sent": self.sent,
            "accepted": self.accepted,
            "failed": self.failed,
            "under_way": len(self._under_way),
            "last": self.last,
        }

    async def _work(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._send_waiting()
            except RayPubSubError as error:
                logger.debug("webhook %s: %s", self.webhook.id, error)
                asyncio.get_running_loop().call_later(1.0, self._woken.set)

    async def _send_waiting(self) -> None:
        """Sends as many deliveries as may be in flight. Each that ends wakes this again."""
        now = time.monotonic()
        free = self.breaker.most(now, self.webhook.concurrency) - len(self._under_way)
        if free <= 0:
            if self.breaker.reopens is not None and not self._under_way:
                asyncio.get_running_loop().call_later(max(0.01, self.breaker.reopens - now), self._woken.set)
            return
        visible = self._workers.timeout + SPARE
        backend, subscriber = self._workers.backend, self.webhook.subscriber
        found = await backend.poll(subscriber, free, visible)
        described = self.webhook.data and found
        carried = await backend.carried(subscriber, found) if described else [None] * len(found)
        for delivery, more in zip(found, carried, strict=True):
            task = asyncio.create_task(self._deliver(delivery, more))
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._woken.set()
        if not task.cancelled() and task.exception() is not None:
            logger.error("webhook %s", self.webhook.id, exc_info=task.exception())

    async def _deliver(self, delivery: Delivery, carried: dict[str, Any] | None) -> None:
        workers, webhook = self._workers, self.webhook
        body = delivery_json(delivery, carried)
        # The id is the same for every attempt, so that the receiver can recognise repetitions.
        message_id, timestamp = f"msg_{delivery.subscriber_code}_{delivery.sequence}", int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": "ray-pubsub",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(webhook.secret, message_id, timestamp, body),
        }
        answer = await send(self._target, headers, body, workers.allowed, workers.timeout)
        self.sent += 1
        self.last = answer.reason
        try:
            await self._settle(delivery, answer)
        except RayPubSubError as error:  # the delivery comes again
            logger.warning("webhook %s: %s was sent, but not settled: %s", webhook.id, message_id, error)

    async def _settle(self, delivery: Delivery, answer: Answer) -> None:
        workers, subscriber = self._workers, self.webhook.subscriber
        if answer.accepted:
            self.accepted += 1
            self.breaker.succeeded()
            await workers.backend.settle("ack", subscriber, [delivery.receipt])
            return
        self.failed += 1
        self.breaker.failed(time.monotonic())
        delay = max(retry_delay(delivery.attempt, workers.first_retry, delivery.sequence), answer.retry_after or 0.0)
        delay = min(delay, LONGEST_DELAY)
        await workers.backend.settle("nack", subscriber, [delivery.receipt], delay, f"webhook: {answer.reason}")
        workers.wakeups.wake_in(subscriber, delay)
        if answer.status == GONE:
            await workers.disable(self.webhook, "the endpoint has answered 410 Gone")


class WebhookWorkers:
    """All webhooks. Used by the event loop only."""

    def __init__(
        self,
        backend: Backend,
        wakeups: Wakeups,
        file: StateFile,
        allowed: tuple[str, ...],
        timeout: float,
        retry: float,
    ) -> None:
        self.backend = backend
        self.wakeups = wakeups
        self.allowed = allowed
        self.timeout = timeout
        self.first_retry = retry
        self._file = file
        self._webhooks: dict[str, Webhook] = {}
        self._workers: dict[str, WebhookWorker] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._changing = asyncio.Lock()
        """Changes are stored and used one after another: what is used in the end is what is stored."""

    def __len__(self) -> int:
        return len(self._webhooks)

    def start(self) -> None:
        """Starts the stored webhooks."""
        for id, state in self._file.part("webhooks").items():
            webhook = webhook_of(id, {**state, "enabled": True})
            self._use(
                webhook if state.get("enabled", True) else webhook.disabled(state.get("disabled_reason") or "disabled")
            )

    async def stop(self) -> None:
        await asyncio.gather(*(worker.stop() for worker in self._workers.values()), *self._stopping)

    def get(self, id: str) -> Webhook | None:
        return self._webhooks.get(id)

    def listed(self) -> list[dict[str, Any]]:
        return [
            {**webhook.shown(), **(self._workers[id].state() if id in self._workers else {})}
            for id, webhook in self._webhooks.items()
        ]

    async def put(self, webhook: Webhook, before: Webhook | None) -> bool:
        """Stores a webhook, which is on disk when this returns, and starts sending at once. Does nothing and returns False if the webhook
        of this id is no longer `before`, which the caller has checked."""
        async with self._changing:
            if self._webhooks.get(webhook.id) is not before:
                return False
            await self._store(webhook.id, webhook.state())
            self._use(webhook)
            return True

    async def remove(self, before: Webhook) -> bool:
        """Removes a webhook, on the same condition."""
        async with self._changing:
            if self._webhooks.get(before.id) is not before:
                return False
            await self._store(before.id, None)
            del self._webhooks[before.id]
            self._stop(before.id)
            return True

    async def disable(self, webhook: Webhook, reason: str) -> None:
        if await self.put(webhook.disabled(reason), webhook):
            logger.warning("webhook %s is disabled: %s", webhook.id, reason)

    async def _store(self, id: str, state: dict[str, Any] | None) -> None:
        # In a thread, because a slow disk would keep all other requests waiting.
        await asyncio.to_thread(self._file.put, "webhooks", id, state)

    def _use(self, webhook: Webhook) -> None:
        self._stop(webhook.id)
        self._webhooks[webhook.id] = webhook
        if webhook.enabled:
            self._workers[webhook.id] = WebhookWorker(webhook, self)

    def _stop(self, id: str) -> None:
        worker = self._workers.pop(id, None)
        if worker is not None:
            task = asyncio.create_task(worker.stop())
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)
