"""Subscribers, publishers and consumers that use a server at the same time, while its processes are killed."""

from __future__ import annotations

import itertools
import random
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

import ray_pubsub
from ray_pubsub.errors import RayPubSubError
from tests.chaos.account import TEMPLATES, Account, Publication, event

__all__ = ["Workload"]

OWN = 40
"""Subscriptions that one subscriber changes repeatedly."""
DEADLINE = 60.0
FEW = 24
"""The first of the templates: each matches few events."""


class Workload:
    """Threads that run until they are stopped, and record in the account what they did and what the server answered."""

    def __init__(
        self,
        server: Any,
        account: Account,
        seed: int = 0,
        subscribers: int = 2,
        publishers: int = 2,
        first: Iterator[int] | None = None,
        generation: int = 0,
        breath: float = 0.0,
    ) -> None:
        """`first`: the numbers of events, if some were published before. `generation`: another one for each workload on one server, so that
        none has a name or an id of another. `breath`: seconds that a subscriber or publisher waits between two requests."""
        self.server, self.account = server, account
        self.numbers = itertools.count() if first is None else first
        self.names = [f"desk-{generation}-{number}" for number in range(3)]
        self._stop = threading.Event()
        self._drained = threading.Event()
        self._seed, self._generation, self._breath = seed, generation, breath
        self._workers = [
            *((self._change, number) for number in range(subscribers)),
            *((self._publish, number) for number in range(publishers)),
        ]
        self._consumers = [(self._consume, number) for number in range(len(self.names))]
        self.progress: dict[str, int] = {}

    @contextmanager
    def running(self) -> Iterator[Workload]:
        """At the end every thread has finished its last request, and every delivery has been fetched, those among them that were in flight
        at a consumer whose poll failed."""
        workers = [self._thread(*each) for each in self._workers]
        consumers = [self._thread(*each) for each in self._consumers]
        try:
            yield self
        finally:
            self._stop.set()
            for worker in workers:
                worker.join()
            self.settle()
            self._wait_until_delivered()
            self._drained.set()
            for consumer in consumers:
                consumer.join()

    def settle(self) -> None:
        """Repeats the changes that were not acknowledged, until they are."""
        for identity in self.account.uncertain():
            self._set(identity, None, patience=DEADLINE)

    def _wait_until_delivered(self) -> None:
        """Returns when nothing waits in a mailbox or is in flight, or late, so that `check` reports what is still missing."""
        ends = time.monotonic() + DEADLINE
        while time.monotonic() < ends:
            with suppress(RayPubSubError):
                found = self.server.stats(hot=0).mailboxes
                if found is not None and not found.waiting and not found.in_flight:
                    return
            time.sleep(0.05)

    def remove(self) -> None:
        """Everything that it has subscribed, and its mailboxes, so that another workload can follow."""
        for name in self.names:
            self.server.remove_subscriber(name)

    def progressed(self, more: int = 3, timeout: float = DEADLINE, but: tuple[str, ...] = ()) -> None:
        """Returns when every worker has finished `more` further requests. `but` names workers that need not."""
        before = dict(self.progress)
        ends = time.monotonic() + timeout
        names = [work.__name__.strip("_") + f"-{number}" for work, number in self._workers]
        while any(self.progress.get(name, 0) < before.get(name, 0) + more for name in names if name not in but):
            if time.monotonic() > ends:
                raise AssertionError(f"no progress in {timeout:g} s: {before} → {self.progress}; {self.account.errors}")
            time.sleep(0.01)

    def _thread(self, work: Callable[[int, random.Random], None], number: int) -> threading.Thread:
        name = f"{work.__name__.strip('_')}-{number}"

        def run() -> None:
            try:
                work(number, random.Random(f"{self._seed}/{name}"))
            except BaseException as error:
                self.account.problems.append(f"{name} ended with {error!r}")
                raise

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def _done(self, name: str) -> None:
        self.progress[name] = self.progress.get(name, 0) + 1
        if self._breath:
            self._stop.wait(self._breath)

    def _change(self, number: int, chance: random.Random) -> None:
        while not self._stop.is_set():
            place = self._generation * OWN * 10 + chance.randrange(OWN) * 10 + number
            identity = str(place) if chance.random() < 0.8 else place  # the two are different ids
            template = None if chance.random() < 0.3 else chance.randrange(len(TEMPLATES))
            self._set(identity, template)
            self._done(f"change-{number}")

    def _set(self, identity: Any, template: int | None, patience: float = 0.0) -> None:
        ends = time.monotonic() + patience
        while True:
            change = self.account.begin(identity, template)
            try:
                if template is None:
                    self.server.unsubscribe(identity)
                else:
                    self.server.subscribe(
                        self.names[zlib.crc32(str(identity).encode()) % 3], TEMPLATES[template], id=identity
                    )
                change.ended = time.monotonic()
                return
            except RayPubSubError as error:
                self.account.erred("change", error)
                if time.monotonic() > ends:
                    return

    def load(self, name: str, count: int) -> None:
        """Many subscriptions at once, none of which is changed later."""
        ids = [f"{name}/{number}" for number in range(count)]
        templates = [number % FEW for number in range(count)]
        changes = [self.account.begin(identity, template) for identity, template in zip(ids, templates, strict=True)]
        table = pa.table({"id": ids, "expression": [TEMPLATES[template] for template in templates]})
        report = self.server.subscribe_many(table, subscriber=self.names[0])
        now = time.monotonic()
        assert report.added == count, report
        for change in changes:
            change.ended = now

    def _publish(self, number: int, chance: random.Random) -> None:
        while not self._stop.is_set():
            numbers = [next(self.numbers) for _ in range(chance.choice((1, 1, 1, 1, 1, 1, 3, 70)))]
            self.publish(numbers)
            self._done(f"publish-{number}")

    def publish(self, numbers: list[int], deliver: bool = True) -> None:
        began = time.monotonic()
        try:
            result = self.server.publish([event(each) for each in numbers], deliver=deliver)
        except RayPubSubError as error:
            self.account.erred("publish", error)
            self.account.lost(numbers)
            return
        ended = time.monotonic()
        if result.errors:
            self.account.problems.append(f"publishing gave {result.errors}")
        matches = [result[place] for place in range(len(numbers))]
        if result.deliveries.rejected:  # the mailbox is full: reported, and not delivered
            self.account.errors["publish: rejected"] += 1
        self.account.published(Publication(began, ended, numbers, matches, deliver and not result.deliveries.rejected))

    def _consume(self, number: int, chance: random.Random) -> None:
        name = self.names[number]
        empty = 0
        while empty < 2:
            asked = time.monotonic()
            try:
                found = self.server.poll(name, limit=2000, wait=0.2)
                self.account.handed_out(asked, found)
                # Some are released, to be delivered again.
                left = 0 if self._drained.is_set() else chance.choice((0, 0, 0, len(found) // 10))
                chosen = found[left:]
                if left:
                    self.server.release(found[:left])
                if chosen:
                    self.account.acknowledging(chosen)
                    report = self.server.ack(chosen)
                    self.account.acked(chosen, [each.position for each in report.stale])
                empty = empty + 1 if self._drained.is_set() and not found else 0
            except RayPubSubError as error:
                self.account.erred("consume", error)

    def check(self) -> list[str]:
        """All errors that were found; the server is also compared with one MatchIndex. Call it when no worker runs."""
        return [*self.account.check(), *self.check_at_rest()]

    def check_at_rest(self) -> list[str]:
        """Where the server differs from one MatchIndex with the subscriptions that there must be."""
        index = ray_pubsub.MatchIndex()
        for identity, template in self.account.now().items():
            index.add(identity, TEMPLATES[template])
        probes = [{**event(number), **({"c": 1} if number % 2 else {})} for number in range(192)]
        found, expected = self.server.publish(probes, deliver=False), index.match_many(probes)
        return [
            f"at rest, {probe} has {sorted(map(str, found[place]))}, not {sorted(map(str, expected[place]))}"
            for place, probe in enumerate(probes)
            if sorted(map(str, found[place])) != sorted(map(str, expected[place]))
        ]
