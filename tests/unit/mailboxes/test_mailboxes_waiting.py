"""Polls that wait; several threads at once."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.store.store import MailboxStore
from tests.unit.mailboxes.delivery_samples import batch_of, one_each

LONG = 60.0  # never waited for: something happens before


@pytest.fixture
def threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def until_someone_waits(mailboxes: Mailboxes) -> None:
    waits = threading.Event()
    add = mailboxes._waiters.add

    def added(*arguments: Any) -> None:
        waits.set()
        add(*arguments)

    mailboxes._waiters.add = added  # type: ignore[method-assign, assignment]
    mailboxes.waits = waits  # type: ignore[attr-defined]


def test_a_poll_waits_for_a_delivery() -> None:
    mailboxes = Mailboxes()
    until_someone_waits(mailboxes)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(mailboxes.poll, 1, 10, LONG)
        assert mailboxes.waits.wait(LONG)  # type: ignore[attr-defined]
        mailboxes.deliver(one_each(2, 1))
        mailboxes.deliver(one_each(1, 1, start=5))
        assert [message.subscription_id for message in found.result(LONG).deliveries()] == [5]
    assert not len(mailboxes._waiters)


def test_a_poll_by_a_name_not_yet_known_waits_too() -> None:
    mailboxes = Mailboxes()
    until_someone_waits(mailboxes)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(mailboxes.poll, "new", 10, LONG)
        assert mailboxes.waits.wait(LONG)  # type: ignore[attr-defined]
        mailboxes.introduce({4: "new"})
        mailboxes.deliver(one_each(4, 1))
        assert [message.subscriber for message in found.result(LONG).deliveries()] == ["new"]


def test_a_poll_that_waits_in_vain_ends() -> None:
    assert Mailboxes().poll(1, wait=0.01).deliveries() == []


@pytest.mark.parametrize("comes_back_by", ["nack", "release", "redrive", "timeout", "delay"])
def test_what_comes_back_wakes_a_poll(comes_back_by: str) -> None:
    limit = 1 if comes_back_by == "redrive" else 5
    mailboxes = Mailboxes(settings=MailboxSettings(delivery_limit=limit))
    mailboxes.deliver(one_each(1, 1))
    found = mailboxes.poll(1, visibility_timeout=0.05 if comes_back_by == "timeout" else LONG).deliveries()
    if comes_back_by == "redrive":
        mailboxes.nack(1, found)
    until_someone_waits(mailboxes)
    with ThreadPoolExecutor(1) as pool:
        again = pool.submit(mailboxes.poll, 1, 10, LONG)
        if comes_back_by not in ("timeout", "delay"):
            assert mailboxes.waits.wait(LONG)  # type: ignore[attr-defined]
        if comes_back_by == "nack":
            mailboxes.nack(1, found)
        elif comes_back_by == "release":
            mailboxes.release(1, found)
        elif comes_back_by == "redrive":
            mailboxes.redrive(1)
        elif comes_back_by == "delay":
            mailboxes.nack(1, found, delay=0.05)
        assert len(again.result(LONG)) == 1


@pytest.mark.usefixtures("threads_change_often")
@pytest.mark.parametrize("durable", [False, True], ids=["in memory", "durable"])
def test_several_threads(durable: bool, tmp_path: Path) -> None:
    """Producers that repeat themselves, consumers that fail now and then: everything is acknowledged once, or dead."""
    settings = MailboxSettings(levels=["low", "high"], delivery_limit=3, capacity=None)
    mailboxes = Mailboxes(MailboxStore(tmp_path / "mail.db" if durable else None), settings)
    batches, each, subscribers = 40, 25, 3

    def produce(producer: int) -> int:
        random = Random(producer)
        suppressed = 0
        for number in range(batches):
            matches = [
                (row, f"{producer}-{number}", random.randrange(subscribers), random.randrange(2)) for row in range(each)
            ]
            batch = batch_of(*matches, keys=[f"{producer}-{number}-{row}" for row in range(each)])
            reports = [mailboxes.deliver(batch) for _ in range(random.choice([1, 1, 2]))]
            assert reports[0].delivered == each
            suppressed += sum(report.duplicates for report in reports)
        return suppressed

    def consume(consumer: int) -> Counter[tuple[str, int]]:
        random = Random(consumer)
        acked: Counter[tuple[str, int]] = Counter()
        subscriber = consumer % subscribers
        while True:
            last = all(future.done() for future in producers)
            found = mailboxes.poll(subscriber, random.randrange(1, 20)).deliveries()
            failed = [message for message in found if random.random() < 0.2]
            kept = [message for message in found if message not in failed]
            mailboxes.nack(subscriber, failed)
            assert mailboxes.ack(subscriber, kept).accepted == len(kept)
            acked.update((message.subscription_id, message.event_id) for message in kept)  # type: ignore[misc]
            if last and not found:
                return acked

    with ThreadPoolExecutor(3 + 2 * subscribers) as pool:
        producers = [pool.submit(produce, number) for number in range(3)]
        consumers = [pool.submit(consume, number) for number in range(2 * subscribers)]
        suppressed = sum(future.result() for future in producers)
        fates = sum((future.result() for future in consumers), Counter[tuple[str, int]]())
    for subscriber in range(subscribers):
        # A consumer may have ended between another's poll and nack.
        while found := mailboxes.poll(subscriber).deliveries():
            fates.update((message.subscription_id, message.event_id) for message in found)  # type: ignore[misc]
            mailboxes.ack(subscriber, found)
        fates.update((letter.subscription_id, letter.event_id) for letter in mailboxes.dead_letters(subscriber))  # type: ignore[misc]
    assert fates == Counter(
        (f"{producer}-{number}", row) for producer in range(3) for number in range(batches) for row in range(each)
    )
    stats = mailboxes.stats()
    assert sum(each.duplicates for each in stats) == suppressed > 0
    assert sum(each.delivered for each in stats) == 3 * batches * each
    for one in stats:
        assert one.delivered == one.acked + one.dead and one.waiting == one.in_flight == 0
    mailboxes.close()
