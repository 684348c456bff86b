"""What mailboxes remember of publications: enough to recognise a repetition, and no more than was allowed."""

from __future__ import annotations

import sqlite3
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from actors.mailboxes.delivery_batch import DeliveryBatch
from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.publish_window import KeyWindow, Undelivered
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.store.store import MailboxStore
from actors.mailboxes.store.window_rows import WindowRows
from tests.unit.mailboxes.delivery_samples import batch_of, one_each


def full_mailbox(store: MailboxStore | None = None, **settings: Any) -> Mailboxes:
    """Subscriber 1 has a full mailbox."""
    mailboxes = Mailboxes(store, MailboxSettings(**{"capacity": 10, **settings}))
    mailboxes.deliver(one_each(1, 10))
    return mailboxes


def many_matches(number: int, events: int, subscriptions: int, given_ids: bool) -> DeliveryBatch:
    """Each event matches all subscriptions of subscriber 1."""
    rows = np.repeat(np.arange(events), subscriptions)
    keys = [f"event {number}-{row}" for row in range(events)] if given_ids else None
    return DeliveryBatch(
        rows,
        np.tile(np.arange(subscriptions), events),
        np.full(len(rows), 1),
        np.zeros(len(rows), np.int64),
        np.arange(events),
        None,
        keys,
        f"publication {number}",
    )


def test_publications_do_not_push_events_out_of_the_window() -> None:
    """A thousand single events, each a publication of its own: all are recognised when they come again under other keys."""
    mailboxes = Mailboxes(None, MailboxSettings(window=1000))
    for number in range(1000):
        mailboxes.deliver(one_each(1, 1, keys=[f"event {number}"], key=f"first {number}"))
    again = [
        mailboxes.deliver(one_each(1, 1, keys=[f"event {number}"], key=f"second {number}")) for number in range(1000)
    ]
    assert sum(report.duplicates for report in again) == 1000


@pytest.mark.parametrize("given_ids", [False, True], ids=["by publication", "by event"])
@pytest.mark.parametrize("durable", [False, True], ids=["in memory", "on disk"])
def test_what_a_stalled_subscriber_rejects_takes_next_to_no_memory(
    given_ids: bool, durable: bool, tmp_path: Path
) -> None:
    """It took 160 bytes for each rejected match, in memory and on disk: 16 MB here."""
    path = tmp_path / "mail.db"
    mailboxes = full_mailbox(MailboxStore(path if durable else None), window=2_000)
    first, *batches = [many_matches(number, 100, 50, given_ids) for number in range(21)]
    mailboxes.deliver(first)  # what is made once is made now
    tracemalloc.start()
    for batch in batches:
        assert len(mailboxes.deliver(batch).rejected) == 5_000
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < (2_000 * 300 if given_ids else 100_000)
    mailboxes.close()
    if durable:
        connection = sqlite3.connect(path)
        tables = ("published", "publications")
        sizes = [connection.execute(f"select total(length(body)) from {table}").fetchone()[0] for table in tables]
        connection.close()
        assert sum(sizes) < 2_100 * 40


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "after a restart"])
def test_who_was_full_gets_what_was_rejected_and_nobody_else_anything(restart: bool, tmp_path: Path) -> None:
    store = MailboxStore(tmp_path / "mail.db")
    mailboxes = full_mailbox(store)
    batch = batch_of(
        *((row, f"{row}-{code}", code, 0) for row in range(4) for code in (1, 2)), key="k", keys=list("abcd")
    )
    assert mailboxes.deliver(batch).delivered == 4
    if restart:
        mailboxes.close()
        mailboxes = Mailboxes(MailboxStore(tmp_path / "mail.db"), MailboxSettings(capacity=10))
    mailboxes.ack(1, mailboxes.poll(1, 7))
    # By its own key, and the events by theirs in another publication.
    again = mailboxes.deliver(
        batch_of(*((row, f"{row}-{code}", code, 0) for row in range(3) for code in (1, 2)), key="k")
    )
    assert (again.delivered, again.duplicates) == (3, 3)
    mailboxes.ack(1, mailboxes.poll(1, 3))
    by_event = mailboxes.deliver(batch_of((0, "3-1", 1, 0), (0, "3-2", 2, 0), keys=["d"], key="other"))
    assert (by_event.delivered, by_event.duplicates) == (1, 1)
    assert mailboxes.deliver(batch_of((0, "3-1", 1, 0), keys=["d"])).duplicates == 1
    mailboxes.close()


def test_an_event_enters_a_mailbox_with_all_its_matches_or_with_none() -> None:
    mailboxes = Mailboxes(None, MailboxSettings(capacity=10))
    matches = [(row, f"{row}-{number}", 1, 0) for row in range(3) for number in range(4)]
    report = mailboxes.deliver(batch_of(*matches, keys=list("abc")))
    assert (report.delivered, report.rejected.tolist()) == (8, [8, 9, 10, 11])
    mailboxes.ack(1, mailboxes.poll(1))
    assert mailboxes.deliver(batch_of(*matches, keys=list("abc"))).delivered == 4
    larger = [(0, number, 2, 0) for number in range(50)]
    assert mailboxes.deliver(batch_of(*larger)).delivered == 50  # else it would never enter
    assert mailboxes.deliver(batch_of(*larger)).delivered == 0


def test_what_is_remembered_is_bounded_by_bytes() -> None:
    window: KeyWindow[Undelivered | None] = KeyWindow(1000, 100_000)
    for number in range(100):
        window.put(number, Undelivered(np.zeros(1000, np.int32), np.zeros(1000, np.int64)))
    assert (len(window), window.bytes < 100_000) == (8, True)
    assert 99 in window and 91 not in window
    for _ in range(100):
        window.put(99, None)
    window.put(98, None)
    assert window.bytes == sum(window._size(number, window[number]) for number in range(92, 100))


def test_an_entry_takes_what_it_is_counted_for() -> None:
    window: KeyWindow[None] = KeyWindow(10**6, 2**40)
    keys = [f"{number:032x}" for number in range(20_000)]
    own = sum(map(sys.getsizeof, keys))
    tracemalloc.start()
    for key in keys:
        window.put(key, None)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held + own == pytest.approx(window.bytes, rel=0.4)


@pytest.mark.parametrize(("keys", "size"), [(1, 10), (7, 10), (1, 5_000)])
def test_rows_on_disk_follow_the_window(keys: int, size: int) -> None:
    rows = WindowRows(1000, 100_000)
    kept: dict[int, None] = {}
    for _ in range(5000):
        kept[rows.next_id] = None
        left_behind = rows.add(keys, size)
        kept = {id: None for id in kept if left_behind is None or id > left_behind}
        newer_keys, newer_bytes = (len(kept) - 1) * keys, (len(kept) - 1) * size
        assert newer_keys < 1000 * (1 + 1 / 32) + keys and newer_bytes < 100_000 * (1 + 1 / 32) + size
    assert len(kept) * keys >= 1000 or len(kept) * size >= 100_000


def test_the_rows_of_an_earlier_release_are_read(tmp_path: Path) -> None:
    before = MailboxStore(tmp_path / "mail.db")
    old = [[["p1"], None], ["e1", None], [["p2"], [[0, "s1"]]], ["e2", ["s1"]]]
    before.write([("insert into published values (1, 4, ?)", [(msgpack.packb(old),)])])
    before.close()
    mailboxes = Mailboxes(MailboxStore(tmp_path / "mail.db"))
    found = [mailboxes.deliver(one_each(1, 1, key=key)).delivered for key in ("p1", "p2")]
    found += [mailboxes.deliver(one_each(1, 1, keys=[key])).delivered for key in ("e1", "e2")]
    assert found == [0, 1, 0, 1]  # what had been rejected in part is delivered again
    mailboxes.close()
