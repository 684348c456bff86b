"""Very many subscribers: an empty mailbox takes little memory, and a removed one none."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from actors.mailboxes import mailbox_table
from actors.mailboxes.delivery_batch import DeliveryBatch
from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.store.store import MailboxStore
from tests.unit.mailboxes.delivery_samples import batch_of, one_each

MANY = 2000


@pytest.fixture(autouse=True)
def few_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_table, "MOST_IDLE", 5)


def deliver_to_all(mailboxes: Mailboxes, number: int) -> None:
    codes = np.arange(1, MANY + 1)
    nothing = np.zeros(MANY, np.int64)
    mailboxes.deliver(DeliveryBatch(nothing, codes, codes, nothing, [number], [{"x": 1}], None, f"key {number}"))


def test_an_empty_mailbox_takes_less_than_500_bytes_and_a_removed_one_nothing() -> None:
    """It took 5,500 bytes for ever."""
    mailboxes = Mailboxes(None, MailboxSettings(levels=("low", "normal", "high", "critical"), window=10))
    mailboxes.deliver(one_each(0, 1))  # what is made once is made now
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    mailboxes.adopt({code: f"subscriber {code}" for code in range(1, MANY + 1)})
    deliver_to_all(mailboxes, 1)
    for code in range(1, MANY + 1):
        assert mailboxes.ack(code, mailboxes.poll(code)).accepted == 1
    gc.collect()  # Python's own free lists are given back
    empty, _ = tracemalloc.get_traced_memory()
    for code in range(1, MANY + 1):
        mailboxes.remove(code)
    removed, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (empty - before) / MANY < 500
    assert (removed - before) / MANY < 150  # tables of names keep their size


def test_what_was_counted_stays_when_mailboxes_are_packed() -> None:
    mailboxes = Mailboxes(None, MailboxSettings(levels=("low", "high"), deadlines={"low": 60.0}))
    for number in range(3):
        deliver_to_all(mailboxes, number)
        for code in range(1, MANY + 1):
            if code % 2 or not number:
                mailboxes.ack(code, mailboxes.poll(code))
    summary, every = mailboxes.summary(), mailboxes.stats()
    assert (summary.mailboxes, len(every)) == (MANY, MANY)
    for name in ("delivered", "acked", "waiting", "duplicates"):
        assert getattr(summary, name) == sum(getattr(each, name) for each in every)
    assert (summary.delivered, summary.acked, summary.waiting) == (3 * MANY, 2 * MANY, MANY)
    assert summary.on_time["low"] == 1.0
    assert (mailboxes.stats_of(1).acked, mailboxes.stats_of(1).on_time["low"]) == (3, 1.0)
    [receipt] = mailboxes.poll(2, 1).deliveries()
    assert mailboxes.ack(1, receipt).stale[0].reason == "settled"
    assert mailboxes.ack(MANY + 1, receipt).stale[0].reason == "unknown"


def test_a_packed_mailbox_is_filled_again() -> None:
    mailboxes = Mailboxes(None, MailboxSettings(capacity=2))
    for number in range(3):
        deliver_to_all(mailboxes, number)
        found = [mailboxes.poll(code).deliveries()[0] for code in range(1, MANY + 1)]
        assert [each.event_id for each in found] == [number] * MANY
        for code, each in enumerate(found, 1):
            mailboxes.ack(code, each)
    assert mailboxes.deliver(batch_of((0, "a", 1, 0), key="key 2")).duplicates == 1
    assert mailboxes.stats_of(1).duplicates == 1


def test_subscribers_who_come_and_go_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody need remove them: an empty mailbox is made again by its next delivery."""
    monkeypatch.setattr(mailbox_table, "MOST_RESTING", 20)
    settings = MailboxSettings(levels=("low", "high"), window=10)
    mailboxes = Mailboxes(MailboxStore(tmp_path / "store"), settings)
    names = {code: f"subscriber {code}" for code in range(1, MANY + 1)}
    assert mailboxes.adopt(names) == {code: code for code in names}
    deliver_to_all(mailboxes, 1)
    for name in names.values():
        assert mailboxes.ack(name, mailboxes.poll(name)).accepted == 1
    summary = mailboxes.summary()
    assert (summary.delivered, summary.acked, summary.waiting) == (MANY, MANY, 0)  # what was counted stays
    assert summary.mailboxes <= 5 + 20
    mailboxes.adopt({7: "subscriber 7"})
    mailboxes.deliver(batch_of((0, "again", 7, 0)))
    assert [each.subscription_id for each in mailboxes.poll("subscriber 7").deliveries()] == ["again"]
    assert mailboxes.summary().delivered == MANY + 1
    mailboxes.close()
    again = Mailboxes(MailboxStore(tmp_path / "store"), settings)
    assert [each.subscription_id for each in again.poll("subscriber 7").deliveries()] == ["again"]
    again.close()
    store = MailboxStore(tmp_path / "store")
    assert store.load(10, 1000).names == {7: "subscriber 7"}
    store.close()
