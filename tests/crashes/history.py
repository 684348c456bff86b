"""Random work on the stores of a server, crashed at chosen places. After each recovery the stores have what the model has: everything that
was acknowledged, and the change that was interrupted wholly or not at all."""

from __future__ import annotations

import itertools
import random
import shutil
from collections import Counter
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

from actors.registry.changes import PutRule, RemoveRule, Subscribe, Unsubscribe
from actors.registry.interval_load import read_intervals
from ray_pubsub.errors import StoreError
from tests.crashes.stores_in_process import NAMES, Crash, Faults, Stores
from tests.unit.mailboxes.delivery_samples import SimulatedClock, batch_of
from tests.unit.registry.store_changes import intervals, put_intervals, put_texts

__all__ = ["History"]

IDS = [f"s{number}" for number in range(14)]
Subscriptions = dict[str, tuple[str, str]]
Waiting = frozenset[tuple[str, Hashable, Hashable]]
"""Subscriber, event, subscription."""


class History:
    """`step` does one random thing and tells the model; `check` compares. A crash within a step leaves two possible states."""

    def __init__(self, root: Path, seed: Any, faults: Faults) -> None:
        self.root, self.faults = root, faults
        self.chance = random.Random(seed)
        self.clock = SimulatedClock()
        self.subscriptions: Subscriptions = {}
        self.rules: dict[str, tuple[str, str]] = {}
        self.waiting: Waiting = frozenset()
        self.queued: Waiting = frozenset()
        """Acknowledged by a call that raised: they may come again after a restart, until a later commit has written that too."""
        self.unknown: Waiting = frozenset()
        """The same from before the last crash: each is there or not, which the next check shows."""
        self.counted: Counter[str] = Counter()
        self._numbers = itertools.count()
        self.stores: Stores | None = None
        self._place(root / "0")
        self.open()

    def open(self) -> None:
        """Opens the stores, again after each crash while they are opened."""
        while True:
            failures = self.faults.failures
            try:
                self.stores = Stores(self.faults.folder, self.clock)
                return
            except Crash:
                self._recover()
            except StoreError:
                if self.faults.failures == failures:  # no write was made to fail, so this is a false alarm
                    raise

    def step(self) -> None:
        """One of everything that can happen, with the model beside it."""
        steps: list[Callable[[], None]] = [
            *[self._group, self._texts, self._intervals, self._remove, self._deliver, self._deliver, self._acknowledge],
            *[self._acknowledge, self._refuse, self._repeat, self._trim, self._rules],
        ]
        if self.chance.random() < 0.05:
            steps = [self._reopen]
        if self.chance.random() < 0.1:
            steps = [self._forget_subscriber]
        self.chance.choice(steps)()
        self.clock.now += 1.0

    def check(self) -> None:
        """The stores have exactly what the model has."""
        stores = self._opened
        stored = {
            each.id: (each.subscriber, each.expression)
            for name in NAMES.values()
            for each in stores.registry.page(name, limit=1000).items
        }
        assert stored == self.subscriptions
        assert {rule.id: (rule.level, rule.expression) for rule in stores.registry.rules()} == self.rules
        found = []
        for name in NAMES.values():
            columns = stores.mailboxes.poll(name, 10_000)
            found += [(name, each.event_id, each.subscription_id) for each in columns.deliveries()]
            stores.mailboxes.release(name, columns)
        assert len(found) == len(set(found))
        assert set(found) - self.unknown == self.waiting - self.unknown
        self.waiting, self.unknown = frozenset(found), frozenset()

    def finish(self) -> None:
        self.check()
        self._opened.close()

    @property
    def _opened(self) -> Stores:
        assert self.stores is not None
        return self.stores

    def _place(self, folder: Path) -> None:
        self.faults.folder, self.faults.picture = folder, folder.with_name(str(int(folder.name) + 1))

    def _recover(self) -> None:
        """Goes on with the picture of the crash."""
        self.counted["crashes"] += 1
        self.unknown, self.queued = self.unknown | self.queued, frozenset()
        if self.stores is not None:
            self.stores.abandon()
            self.stores = None
        shutil.rmtree(self.faults.folder, ignore_errors=True)
        self._place(self.faults.picture)

    def _write(
        self, write: Callable[[], object], then: Callable[[], None], again: Callable[[], object] | None = None
    ) -> None:
        """`then` changes the model when the change is done. `again` repeats a change of which it is not known whether it was done."""
        full = self.chance.random() < 0.05
        try:
            if full:
                with self._opened.full_disk():
                    write()
            else:
                write()
        except StoreError:
            self.counted["failed"] += 1  # it was not done
            return
        except Crash:
            self._recover()
            self.open()
            again = again or write
            while True:
                try:
                    again()
                    break
                except Crash:
                    self._recover()
                    self.open()
        then()

    def _group(self) -> None:
        number = next(self._numbers)
        changes: list[Any] = []
        after = dict(self.subscriptions)
        for place in range(self.chance.randint(1, 4)):
            identity, key = self.chance.choice(IDS), f"group {number}/{place}"
            if self.chance.random() < 0.6:
                subscriber, text = self.chance.choice([*NAMES.values()]), f"x = {number}"
                changes.append(Subscribe(identity, subscriber, text, key=key))
                after[identity] = (subscriber, text)
            else:
                changes.append(Unsubscribe(identity, key=key))
                after.pop(identity, None)
        before = dict(self.subscriptions)

        def write() -> None:
            if self._interrupted(before, after):
                return
            self._opened.registry.commit(changes)

        self._write(lambda: self._opened.registry.commit(changes), lambda: self._become(after), write)

    def _interrupted(self, before: Subscriptions, after: Subscriptions) -> bool:
        """After a crash: whether the change was done. It was done wholly or not at all."""
        stored = {
            each.id: (each.subscriber, each.expression)
            for name in NAMES.values()
            for each in self._opened.registry.page(name, limit=1000).items
        }
        assert stored in (before, after)
        self.counted["done" if stored == after else "not done"] += 1
        return False  # it is repeated in either case: under its key that changes nothing

    def _become(self, after: Subscriptions) -> None:
        self.subscriptions = after

    def _texts(self) -> None:
        number = next(self._numbers)
        chosen = self.chance.sample(IDS, self.chance.randint(1, 6))
        rows = [(identity, self.chance.choice([*NAMES.values()]), f"y = {number}") for identity in chosen]
        after = {**self.subscriptions, **{identity: (name, text) for identity, name, text in rows}}
        key = f"texts {number}"
        self._write(lambda: put_texts(self._opened.registry, rows, key=key), lambda: self._become(after))

    def _intervals(self) -> None:
        number = next(self._numbers)
        chosen = self.chance.sample(IDS, self.chance.randint(1, 9))
        name = self.chance.choice([*NAMES.values()])
        load = read_intervals(intervals(chosen, low=[number] * len(chosen), high=[number] * len(chosen)), name)
        after = {**self.subscriptions, **dict.fromkeys(chosen, (name, f"x = {number}"))}
        key = f"intervals {number}"
        self._write(lambda: put_intervals(self._opened.registry, load, key=key), lambda: self._become(after))

    def _remove(self) -> None:
        chosen = self.chance.sample(IDS, self.chance.randint(1, 6))
        key = f"remove {next(self._numbers)}"
        after = {identity: stored for identity, stored in self.subscriptions.items() if identity not in chosen}
        self._write(lambda: self._opened.registry.commit_removal(chosen, key), lambda: self._become(after))

    def _rules(self) -> None:
        number = next(self._numbers)
        identity, after = f"r{number % 3}", dict(self.rules)
        change: Any = RemoveRule(identity, key=f"rule {number}")
        if self.chance.random() < 0.7:
            change = PutRule(identity, "high", f"x > {number}", key=f"rule {number}")
            after[identity] = ("high", f"x > {number}")
        else:
            after.pop(identity, None)

        def then() -> None:
            self.rules = after

        self._write(lambda: self._opened.registry.commit([change]), then)

    def _trim(self) -> None:
        self._write(self._opened.registry.trim, lambda: None, self._trim_again)

    def _trim_again(self) -> None:
        self._opened.registry.trim()

    def _batch(self, number: int) -> tuple[Any, Waiting]:
        chance = random.Random(number)
        events = chance.randint(1, 3)
        matches = {
            (row, f"s{chance.randrange(5)}", chance.choice([*NAMES]), 0) for row in range(events) for _ in range(3)
        }
        ids = [f"e{number}/{row}" for row in range(events)]
        batch = batch_of(
            *sorted(matches),
            events=ids,
            contents=[{"x": number, "text": "y" * chance.choice([5, 3000])}] * events,
            key=f"publication {number}",
        )
        return batch, frozenset((NAMES[code], ids[row], subscription) for row, subscription, code, _ in matches)

    def _deliver(self) -> None:
        batch, new = self._batch(next(self._numbers))

        def then() -> None:
            self.waiting |= new
            if self.counted["crashes"] == crashes:  # the commit has taken along what was queued
                self.queued = frozenset()

        crashes = self.counted["crashes"]
        self._write(lambda: self._opened.deliver(batch), then)

    def _repeat(self) -> None:
        """A publication that was done before is done again, and nothing is delivered twice."""
        events = [event for _, event, _ in self.waiting - self.unknown]
        if events:
            number = int(str(self.chance.choice(sorted(map(str, events)))).removeprefix("e").partition("/")[0])
            batch, _ = self._batch(number)
            self._write(lambda: self._opened.deliver(batch), lambda: None)

    def _acknowledge(self) -> None:
        name = self.chance.choice([*NAMES.values()])
        mailboxes = self._opened.mailboxes
        found = mailboxes.poll(name, self.chance.choice([1, 3, 50]))
        chosen = frozenset((name, each.event_id, each.subscription_id) for each in found.deliveries())
        try:
            mailboxes.ack(name, found)
            self.waiting, self.unknown = self.waiting - chosen, self.unknown - chosen
        except StoreError:
            self._uncertain(chosen)
        except Crash:
            self._uncertain(chosen)
            self._recover()
            self.open()

    def _uncertain(self, chosen: Waiting) -> None:
        self.counted["failed"] += 1
        self.waiting -= chosen
        self.unknown -= chosen
        self.queued |= chosen

    def _refuse(self) -> None:
        name = self.chance.choice([*NAMES.values()])
        found = self._opened.mailboxes.poll(name, 2)
        self._write(lambda: self._opened.mailboxes.nack(name, found), lambda: None, lambda: None)

    def _forget_subscriber(self) -> None:
        name = self.chance.choice([*NAMES.values()])
        gone = frozenset(each for each in self.waiting | self.unknown if each[0] == name)
        try:
            self._opened.mailboxes.remove(name)
            self.waiting, self.unknown = self.waiting - gone, self.unknown - gone
        except StoreError:
            self._uncertain(gone)
        except Crash:
            self._uncertain(gone)
            self._recover()
            self.open()

    def _reopen(self) -> None:
        try:
            self._opened.close()
            self.stores = None
        except Crash:
            self._recover()
        except StoreError:  # what was queued could not be written
            self._opened.abandon()
            self.stores = None
            self.unknown, self.queued = self.unknown | self.queued, frozenset()
        self.open()
