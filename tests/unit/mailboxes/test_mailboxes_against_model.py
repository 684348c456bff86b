"""Random operations on mailboxes and on the model of them: the same deliveries in the same order, the same fates, also after restarts."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from math import inf
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.mailboxes import mailbox_table
from actors.mailboxes.delivery import Delivery
from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.store.store import MailboxStore
from tests.examples import scaled
from tests.unit.mailboxes.delivery_samples import SimulatedClock, batch_of
from tests.unit.mailboxes.mailbox_model import Entry, Model

MOST_IDLE = mailbox_table.MOST_IDLE
SUBSCRIBERS = 3
subscribers = st.integers(0, SUBSCRIBERS - 1)
# Quarters of a second are exact, so that sums and differences of times are.
times = st.integers(0, 12).map(lambda quarters: quarters / 4)
NAMES = ["low", "middle", "high"]


class MailboxesAgainstModel(RuleBasedStateMachine):
    @initialize(data=st.data(), levels=st.integers(1, 3), durable=st.booleans(), most_idle=st.sampled_from([0, 1000]))
    def start(self, data: st.DataObject, levels: int, durable: bool, most_idle: int) -> None:
        mailbox_table.MOST_IDLE = most_idle  # with 0 every mailbox is packed when it is empty
        self.folder = Path(tempfile.mkdtemp()) if durable else None
        self.clock = SimulatedClock()
        self.settings = MailboxSettings(
            levels=NAMES[:levels],
            deadlines=data.draw(st.lists(times | st.just(inf), min_size=levels, max_size=levels)),
            capacity=data.draw(st.integers(1, 12)),
            overflow=data.draw(st.sampled_from(["reject", "drop-oldest", "drop-lowest", "dead-letter"])),  # type: ignore[arg-type]
            expired=data.draw(st.sampled_from(["deliver-late", "drop"])),  # type: ignore[arg-type]
            delivery_limit=data.draw(st.integers(1, 3)),
            dead_capacity=data.draw(st.integers(0, 4)),
            in_flight_limit=data.draw(st.integers(1, 10)),
            visibility_timeout=data.draw(st.integers(1, 12)) / 4,
        )
        self.model = Model(
            levels,
            list(self.settings.deadlines or ()),  # type: ignore[arg-type]
            self.settings.capacity or 0,
            self.settings.overflow,
            self.settings.expired == "drop",
            self.settings.delivery_limit or 0,
            self.settings.dead_capacity,
            self.settings.in_flight_limit,
            self.settings.visibility_timeout,
        )
        self.messages: list[Delivery] = []
        self.acked: set[int] = set()
        self.events = 0
        self.open()

    def open(self) -> None:
        path = None if self.folder is None else self.folder / "mail.db"
        self.mailboxes = Mailboxes(MailboxStore(path), self.settings, clock=self.clock)
        self.delivered: Counter[int] = Counter(entry.subscriber for entry in self.model.entries)
        self.acked_here: Counter[int] = Counter()
        self.gone_before = {id(entry) for entry in self.model.entries if entry.state in ("acked", "dropped", "expired")}

    def teardown(self) -> None:
        mailbox_table.MOST_IDLE = MOST_IDLE
        if hasattr(self, "mailboxes"):
            self.mailboxes.close()
            if self.folder is not None:
                shutil.rmtree(self.folder)

    @rule(data=st.data(), new=st.integers(0, 6), old=st.integers(0, 2))
    def deliver(self, data: st.DataObject, new: int, old: int) -> None:
        """Some events are new, some were published before; a subscription gets an event once."""
        repeated = (
            data.draw(st.lists(st.integers(0, max(self.events - 1, 0)), max_size=old, unique=True))
            if self.events
            else []
        )
        numbers = [*repeated, *range(self.events, self.events + new)]
        self.events += new
        matches = [
            (
                f"event {number}",
                subscription,
                subscription % SUBSCRIBERS,
                data.draw(st.integers(0, self.model.levels - 1)),
            )
            for number in numbers
            for subscription in data.draw(st.lists(st.integers(0, 8), max_size=4, unique=True))
        ]
        events = [f"event {number}" for number in numbers]
        batch = batch_of(
            *(
                (events.index(event), subscription, subscriber, level)
                for event, subscription, subscriber, level in matches
            ),
            events=events,
            keys=events,
        )
        # In the model a key is known by its matches: an event that matched nothing leaves it unknown.
        for event in events:
            if event not in self.model.delivered_keys and all(match[0] != event for match in matches):
                self.model.delivered_keys[event] = set()
        report = self.mailboxes.deliver(batch)
        expected = self.model.deliver(matches, self.clock.now)
        found = (report.delivered, report.duplicates, report.dead, report.dropped, report.rejected.tolist())
        assert found == expected
        self.delivered = Counter(entry.subscriber for entry in self.model.entries)

    @rule(subscriber=subscribers, limit=st.integers(1, 8))
    def poll(self, subscriber: int, limit: int) -> None:
        found = self.mailboxes.poll(subscriber, limit).deliveries()
        expected = self.model.poll(subscriber, limit, self.clock.now)
        assert [self.shown(message) for message in found] == [self.expected(entry) for entry in expected]
        for message, entry in zip(found, expected, strict=True):
            entry.lease = message.lease
            assert message.sequence not in self.acked
        self.messages += found

    def shown(self, message: Delivery) -> tuple[Any, ...]:
        return (
            message.sequence,
            message.subscription_id,
            message.event_id,
            message.level,
            message.enqueued,
            message.due,
            message.attempt,
            message.visible_until,
        )

    def expected(self, entry: Entry) -> tuple[Any, ...]:
        return (
            entry.sequence,
            entry.subscription,
            entry.event,
            entry.level,
            entry.enqueued,
            self.model.due(entry),
            entry.attempts,
            entry.until,
        )

    def receipts(self, data: st.DataObject) -> tuple[int, list[Delivery]]:
        chosen = data.draw(
            st.lists(st.sampled_from(self.messages), min_size=1, max_size=6, unique_by=lambda each: each.receipt)
        )
        subscriber = chosen[0].subscriber_code
        self.model.sweep(subscriber, self.clock.now)
        return subscriber, chosen

    @precondition(lambda self: self.messages)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        subscriber, chosen = self.receipts(data)
        report = self.mailboxes.ack(subscriber, chosen)
        stale = []
        for position, message in enumerate(chosen):
            entry = self.known(subscriber, message, even_late=True)
            if entry is None:
                stale.append(position)
            else:
                entry.state = "acked"
                self.acked.add(entry.sequence)
                self.acked_here[subscriber] += 1
        assert [each.position for each in report.stale] == stale
        assert report.accepted == len(chosen) - len(stale)

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), delay=times)
    def nack(self, data: st.DataObject, delay: float) -> None:
        subscriber, chosen = self.receipts(data)
        report = self.mailboxes.nack(subscriber, chosen, delay, "no")
        stale = []
        for position, message in enumerate(chosen):
            entry = self.known(subscriber, message, even_late=False)
            if entry is None:
                stale.append(position)
            elif self.model.try_again(entry, "no", self.clock.now):
                entry.receipt_holds = False
                entry.state, entry.until = ("delayed" if delay else "waiting"), self.clock.now + delay
        assert [each.position for each in report.stale] == stale

    @precondition(lambda self: self.messages)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        subscriber, chosen = self.receipts(data)
        report = self.mailboxes.release(subscriber, chosen)
        stale = []
        for position, message in enumerate(chosen):
            entry = self.known(subscriber, message, even_late=False)
            if entry is None:
                stale.append(position)
            else:
                entry.state, entry.receipt_holds, entry.attempts = "waiting", False, entry.attempts - 1
        assert [each.position for each in report.stale] == stale

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), longer=times)
    def extend(self, data: st.DataObject, longer: float) -> None:
        subscriber, chosen = self.receipts(data)
        report = self.mailboxes.extend(subscriber, chosen, longer)
        known = [self.known(subscriber, message, even_late=False) for message in chosen]
        for entry in known:
            if entry is not None:
                entry.until = self.clock.now + longer
        assert [each.position for each in report.stale] == [at for at, entry in enumerate(known) if entry is None]

    def known(self, subscriber: int, message: Delivery, *, even_late: bool) -> Entry | None:
        if all(entry.sequence != message.sequence for entry in self.model.entries):
            return None  # gone before a restart
        return self.model.holds(subscriber, message.receipt, even_late=even_late)

    @rule(data=st.data(), subscriber=subscribers)
    def redrive(self, data: st.DataObject, subscriber: int) -> None:
        self.model.sweep(subscriber, self.clock.now)
        dead = self.model.dead(subscriber)
        chosen = data.draw(st.lists(st.sampled_from(dead), unique_by=lambda entry: entry.sequence)) if dead else []
        revived = 0
        for entry in chosen:
            keeps_bound = self.model.overflow in ("reject", "dead-letter")
            if keeps_bound and len(self.model.of(subscriber, "waiting")) >= self.model.capacity:
                continue
            entry.state, entry.attempts, entry.order, entry.enqueued = (
                "waiting",
                0,
                self.model.next_order,
                self.clock.now,
            )
            self.model.next_order += 1
            revived += 1
        assert self.mailboxes.redrive(subscriber, [entry.sequence for entry in chosen]) == revived

    @rule(subscriber=subscribers)
    def purge_dead(self, subscriber: int) -> None:
        self.model.sweep(subscriber, self.clock.now)
        dead = self.model.dead(subscriber)
        assert self.mailboxes.purge_dead(subscriber) == len(dead)
        for entry in dead:
            entry.state = "dropped"

    @rule(passed=times)
    def time_passes(self, passed: float) -> None:
        self.clock.now += passed

    @precondition(lambda self: self.folder is not None)
    @rule(orderly=st.booleans())
    def restart(self, orderly: bool) -> None:
        redriven = [entry for entry in self.model.entries if entry.state != "dead" and entry.buried]
        if redriven:
            return  # the time of a redrive is not kept; by hand in test_mailbox_store
        for subscriber in range(SUBSCRIBERS):
            self.model.sweep(subscriber, self.clock.now)
            self.mailboxes.stats_of(subscriber)
        if orderly:
            self.mailboxes.close()
        else:
            self.mailboxes.flush()
        old = self.mailboxes
        self.model.restart()
        self.open()
        if not orderly:
            old.close()

    @invariant()
    def same_fates(self) -> None:
        if not hasattr(self, "mailboxes"):
            return
        for subscriber in range(SUBSCRIBERS):
            stats = self.mailboxes.stats_of(subscriber)
            self.model.sweep(subscriber, self.clock.now)
            count = {
                state: len(self.model.of(subscriber, state))
                for state in ("waiting", "delayed", "in flight", "dead", "dropped", "expired", "acked")
            }
            assert stats.waiting == count["waiting"] + count["delayed"]
            assert (stats.delayed, stats.in_flight, stats.dead) == (count["delayed"], count["in flight"], count["dead"])
            assert (stats.acked, stats.expired, stats.dropped) == (count["acked"], count["expired"], count["dropped"])
            total = stats.acked + stats.waiting + stats.in_flight + stats.dead + stats.dropped + stats.expired
            assert stats.delivered == total == self.delivered[subscriber]
            assert stats.waiting_bytes == 64 * count["waiting"]
            letters = self.mailboxes.dead_letters(subscriber)
            assert [(each.sequence, each.reason, each.died, each.attempts) for each in letters] == [
                (entry.sequence, entry.reason, entry.died, entry.attempts) for entry in self.model.dead(subscriber)
            ]


TestMailboxesAgainstModel = MailboxesAgainstModel.TestCase
TestMailboxesAgainstModel.settings = settings(max_examples=scaled(30), stateful_step_count=40)
