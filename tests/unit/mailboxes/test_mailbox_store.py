"""Mailboxes on disk: what was acknowledged survives a crash, and only the latest instance writes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.store.store import MailboxStore
from ray_pubsub.errors import FencedError, StoreError
from tests.unit.mailboxes.conftest import OpenMailboxStore
from tests.unit.mailboxes.delivery_samples import SimulatedClock, batch_of, one_each


def opened(place: Path | OpenMailboxStore, clock: SimulatedClock | None = None, **settings: Any) -> Mailboxes:
    given = MailboxSettings(**{"levels": ["low", "high"], **settings})
    store = MailboxStore(place / "mail.db") if isinstance(place, Path) else place()
    return Mailboxes(store, given, clock=clock or SimulatedClock())


def rows(path: Path, table: str) -> int:
    connection = sqlite3.connect(path / "mail.db")
    count: int = connection.execute(f"select count(*) from {table}").fetchone()[0]
    connection.close()
    return count


def test_everything_comes_back(same_store: OpenMailboxStore) -> None:
    clock = SimulatedClock()
    before = opened(same_store, clock, delivery_limit=2, deadlines=[5.0, 9.0])
    before.introduce({1: "one"})
    contents = [{"x": 1}, {"x": 2}, None]
    before.deliver(
        batch_of(
            (0, "a", 1, 0), (1, "b", 1, 1), (2, "c", 2, 0), (2, "d", 1, 1), contents=contents, keys=["k0", "k1", "k2"]
        )
    )
    before.deliver(batch_of((0, 7, 1, 0), events=[99]))
    clock.now += 3
    [refused, acked] = before.poll("one", 2).deliveries()
    assert before.ack("one", acked).accepted == 1
    before.nack("one", refused)
    [again, in_flight] = before.poll("one", 2).deliveries()
    assert again.sequence == refused.sequence
    before.nack("one", again, reason="really not")
    before.flush()

    after = opened(same_store, clock, delivery_limit=2, deadlines=[5.0, 9.0])
    assert after.epoch == before.epoch + 1
    [letter] = after.dead_letters("one")
    assert (letter.subscription_id, letter.event, letter.reason, letter.attempts) == ("b", {"x": 2}, "really not", 2)
    found = after.poll("one").deliveries()
    assert [(message.subscription_id, message.event_id, message.event) for message in found] == [
        ("a", 0, {"x": 1}),
        (7, 99, None),
    ]
    assert found[0].sequence == in_flight.sequence
    assert [(message.enqueued, message.due, message.attempt) for message in found] == [(1000.0, 1005.0, 1)] * 2
    assert after.ack("one", in_flight).stale[0].reason == "redelivered"  # a receipt of before
    assert [message.subscription_id for message in after.poll(2).deliveries()] == ["c"]
    assert after.deliver(batch_of((0, "a", 1, 0), keys=["k0"])).duplicates == 1
    assert after.redrive("one") == 1
    [again] = after.poll("one").deliveries()
    assert (again.subscription_id, again.attempt) == ("b", 1)
    assert again.sequence < after.deliver(one_each(3, 1)).delivered + 10
    after.close()


def test_attempts_are_remembered(same_store: OpenMailboxStore) -> None:
    before = opened(same_store, delivery_limit=3)
    before.deliver(one_each(1, 2))
    for _ in range(2):
        before.nack(1, before.poll(1, 1).deliveries())
    before.flush()
    after = opened(same_store, delivery_limit=3)
    assert [message.attempt for message in after.poll(1).deliveries()] == [3, 1]


def test_sequence_numbers_and_leases_are_never_given_twice(tmp_path: Path) -> None:
    sequences, leases = set(), set()
    for _ in range(3):
        mailboxes = opened(tmp_path)
        mailboxes.deliver(one_each(1, 2))
        found = mailboxes.poll(1).deliveries()
        mailboxes.ack(1, found)
        sequences.update(message.sequence for message in found)
        leases.add(found[0].lease)
        assert rows(tmp_path, "chunks") == 0
    assert (len(sequences), len(leases)) == (6, 3)


def test_an_older_instance_is_refused(same_store: OpenMailboxStore) -> None:
    old = opened(same_store)
    old.deliver(one_each(1, 3, keys=[1, 2, 3]))
    found = old.poll(1, 1).deliveries()
    new = opened(same_store)
    with pytest.raises(FencedError) as caught:
        old.deliver(one_each(1, 1))
    assert (caught.value.epoch, caught.value.current) == (1, 2)
    for call in (
        lambda: old.ack(1, found),
        lambda: old.poll(1).deliveries(),
        lambda: old.redrive(1),
        lambda: old.remove(1),
        old.stats,
        old.flush,
    ):
        with pytest.raises(FencedError):
            call()
    old.close()
    assert len(new.poll(1).deliveries()) == 3
    assert new.deliver(one_each(1, 1)).delivered == 1


def test_an_ack_of_an_older_instance_is_refused(same_store: OpenMailboxStore) -> None:
    old = opened(same_store)
    old.deliver(one_each(1, 1))
    found = old.poll(1).deliveries()
    new = opened(same_store)
    with pytest.raises(FencedError):
        old.ack(1, found)
    assert len(new.poll(1).deliveries()) == 1


def test_what_cannot_be_written_was_not_delivered_and_can_be_repeated(tmp_path: Path) -> None:
    mailboxes = opened(tmp_path)
    mailboxes.deliver(one_each(1, 1))
    connection = mailboxes._store._connection
    assert connection is not None
    pages = connection.execute("pragma page_count").fetchone()[0]
    connection.execute(f"pragma max_page_count = {pages}")
    large = one_each(1, 3, start=5, contents=[{"x": "y" * 5000}] * 3, keys=["a", "b", "c"])
    with pytest.raises(StoreError, match="full"):
        mailboxes.deliver(large)
    assert [message.subscription_id for message in mailboxes.poll(1).deliveries()] == [0]
    connection.execute("pragma max_page_count = 1000000")
    assert mailboxes.deliver(large).delivered == 3
    assert [message.subscription_id for message in mailboxes.poll(1).deliveries()] == [5, 6, 7]
    assert len(opened(tmp_path).poll(1).deliveries()) == 4


def test_an_ack_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    mailboxes = opened(tmp_path, capacity=None)
    mailboxes.deliver(one_each(1, 20_000))
    found = mailboxes.poll(1, 10_000).deliveries()
    connection = mailboxes._store._connection
    assert connection is not None
    connection.execute(f"pragma max_page_count = {connection.execute('pragma page_count').fetchone()[0]}")
    with pytest.raises(StoreError, match="full"):
        mailboxes.ack(1, found)
    connection.execute("pragma max_page_count = 1000000")
    mailboxes.flush()
    assert opened(tmp_path).stats_of(1).waiting == 10_000


def test_no_window(tmp_path: Path) -> None:
    mailboxes = opened(tmp_path, window=0)
    assert [mailboxes.deliver(one_each(1, 1, keys=["k"])).delivered for _ in range(3)] == [1, 1, 1]
    assert rows(tmp_path, "published") == 0


def test_a_file_that_is_not_of_mailboxes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="folder"):
        MailboxStore(tmp_path)
    with pytest.raises(StoreError, match="cannot be opened"):
        MailboxStore(tmp_path / "no" / "where.db")
    (tmp_path / "text").write_text("hello, this is not a database at all" * 50)
    with pytest.raises(StoreError, match="is damaged or no database"):
        MailboxStore(tmp_path / "text")
    other = sqlite3.connect(tmp_path / "mail.db")
    other.execute("create table x (y)")
    other.close()
    with pytest.raises(StoreError, match="another program"):
        opened(tmp_path)
    newer = MailboxStore(tmp_path / "newer.db")
    assert newer._connection is not None
    newer._connection.execute("pragma user_version = 99")
    newer.close()
    with pytest.raises(StoreError, match="newer release"):
        MailboxStore(tmp_path / "newer.db")


def test_what_is_settled_leaves_the_disk(tmp_path: Path) -> None:
    mailboxes = opened(tmp_path, window=50, delivery_limit=1, dead_capacity=3)
    for number in range(40):
        mailboxes.deliver(
            batch_of(*((row, number, row % 3, 0) for row in range(9)), keys=[f"{number}-{row}" for row in range(9)])
        )
        for subscriber in range(3):
            found = mailboxes.poll(subscriber).deliveries()
            mailboxes.nack(subscriber, found[0])
            mailboxes.ack(subscriber, found[1:])
    mailboxes.flush()
    assert rows(tmp_path, "dead") == 9
    assert rows(tmp_path, "chunks") <= 9
    assert rows(tmp_path, "published") <= 7
    for subscriber in range(3):
        mailboxes.purge_dead(subscriber)
    assert [rows(tmp_path, table) for table in ("chunks", "settled", "attempts", "dead")] == [0, 0, 0, 0]


def test_a_consumer_that_never_acknowledges_keeps_only_its_own(tmp_path: Path) -> None:
    """Merged chunks: those of the quick consumers are gone from memory and from disk."""
    mailboxes = opened(tmp_path)
    content = {"text": "x" * 200}
    for number in range(200):
        matches = [(row, number, 1 if row else 2, 0) for row in range(50)]
        mailboxes.deliver(batch_of(*matches, contents=[content] * 50))
        mailboxes.ack(1, mailboxes.poll(1).deliveries())
    log = mailboxes._state.log
    assert sum(chunk.live_rows for chunk in log) == 200
    assert sum(map(len, log)) < 200 + 50 * 60
    mailboxes.flush()
    assert rows(tmp_path, "chunks") == len(log) < 60
    after = opened(tmp_path)
    assert [message.subscription_id for message in after.poll(2, 1000).deliveries()] == list(range(200))
    assert after.poll(1).deliveries() == []


def test_small_batches_become_few_chunks(tmp_path: Path) -> None:
    mailboxes = opened(tmp_path)
    for number in range(1000):
        mailboxes.deliver(batch_of((0, number if number % 2 else f"s{number}", number % 5, 1), events=[f"e{number}"]))
    assert len(mailboxes._state.log) < 150
    mailboxes.flush()
    after = opened(tmp_path)
    found = [message for subscriber in range(5) for message in after.poll(subscriber, 1000).deliveries()]
    assert sorted(message.event_id for message in found) == sorted(f"e{number}" for number in range(1000))
    assert all(message.subscription_id in (int(message.event_id[1:]), f"s{message.event_id[1:]}") for message in found)


def test_fewer_levels_than_before(same_store: OpenMailboxStore) -> None:
    opened(same_store, levels=["a", "b", "c"]).deliver(batch_of((0, "x", 1, 2), (0, "y", 1, 0)))
    assert [message.priority for message in opened(same_store, levels=["a", "b"]).poll(1).deliveries()] == ["b", "a"]


def test_acks_of_many_threads_share_transactions(same_store: OpenMailboxStore) -> None:
    mailboxes = opened(same_store)
    mailboxes.deliver(batch_of(*((0, number, number % 8, 0) for number in range(400))))
    store = mailboxes._store
    groups: list[int] = []
    write = store._write

    def counted(connection: Any, changes: Any) -> None:
        groups.append(len(list(changes)))
        write(connection, changes)

    store._write = counted  # type: ignore[method-assign]

    def consume(subscriber: int) -> int:
        accepted = 0
        while found := mailboxes.poll(subscriber, 1).deliveries():
            accepted += mailboxes.ack(subscriber, found).accepted
        return accepted

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(consume, range(8))) == 400
    assert sum(groups) == 400
    assert store.queued == 0
    assert opened(same_store).stats() == []


CHILD = """
import sys
sys.path[:0] = sys.argv[2:]
from tests.unit.mailboxes.conftest import OpenMailboxStore
from tests.unit.mailboxes.delivery_samples import batch_of
from actors.mailboxes.store.store import MailboxStore
from actors.mailboxes.mailboxes import Mailboxes
mailboxes = Mailboxes(MailboxStore(sys.argv[1]))
number = 0
while True:
    matches = [(row, f"{number}-{row}", row % 4, 0) for row in range(40)]
    mailboxes.deliver(batch_of(*matches, contents=[{"number": number}] * 40, keys=[f"{number}-{row}" for row in range(40)]))
    print("delivered", number, flush=True)
    for subscriber in range(3):
        found = mailboxes.poll(subscriber, 12).deliveries()
        mailboxes.nack(subscriber, found[:1])
        mailboxes.ack(subscriber, found[1:])
        print("acked", *(message.subscription_id for message in found[1:]), flush=True)
    number += 1
"""


@pytest.mark.parametrize("lines", [7, 50, 201])
def test_killed_at_any_moment(lines: int, tmp_path: Path) -> None:
    """What was delivered before is acknowledged or comes again; what was acknowledged does not."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "mail.db"), str(Path(__file__).parents[3])],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    told = [child.stdout.readline() for _ in range(lines)]
    child.kill()
    told += child.stdout.readlines()  # what was printed before the signal arrived
    child.wait()
    child.stdout.close()
    if told and not told[-1].endswith("\n"):
        told.pop()
    acked = {id for line in told if line.startswith("acked") for id in line.split()[1:]}
    batches = [int(line.split()[1]) for line in told if line.startswith("delivered")]
    mailboxes = Mailboxes(MailboxStore(tmp_path / "mail.db"), MailboxSettings(in_flight_limit=10**6))
    back = [message for subscriber in range(4) for message in mailboxes.poll(subscriber, 10**6).deliveries()]
    ids = {message.subscription_id for message in back}
    assert len(ids) == len(back)
    assert len(acked) > 0 and ids & acked == set()
    delivered = {f"{number}-{row}" for number in batches for row in range(40)}
    dead = {letter.subscription_id for subscriber in range(4) for letter in mailboxes.dead_letters(subscriber)}
    assert dead & (ids | acked) == set()
    # One acknowledgement, so of one subscriber and up to 11 deliveries, may have been on disk and not yet told.
    missing = delivered - acked - ids - dead
    assert len(missing) <= 11 and len({int(id.split("-")[1]) % 4 for id in missing}) <= 1, missing
    assert all(message.event == {"number": int(str(message.subscription_id).split("-")[0])} for message in back)
    again = [(row, f"0-{row}", row % 4, 0) for row in range(40)]
    assert mailboxes.deliver(batch_of(*again, keys=[f"0-{row}" for row in range(40)])).duplicates == 40
    mailboxes.close()


def test_what_was_redriven_or_purged_is_not_dead_after_a_restart(same_store: OpenMailboxStore) -> None:
    before = opened(same_store, delivery_limit=1)
    before.deliver(one_each(1, 3))
    before.nack(1, before.poll(1).deliveries())
    first, second, third = before.dead_letters(1)
    before.flush()
    assert before.redrive(1, [first.sequence]) == 1
    assert before.purge_dead(1, [second.sequence]) == 1
    after = opened(same_store, delivery_limit=1)
    assert [letter.sequence for letter in after.dead_letters(1)] == [third.sequence]
    assert [(message.sequence, message.attempt) for message in after.poll(1).deliveries()] == [(first.sequence, 1)]


def test_a_removed_mailbox_stays_removed(same_store: OpenMailboxStore) -> None:
    before = opened(same_store)
    before.introduce({1: "one", 2: "two"})
    before.deliver(batch_of((0, "a", 1, 0), (0, "b", 2, 0)))
    assert before.remove("one") == 1
    after = opened(same_store)
    assert after.poll("one").deliveries() == after.poll(1).deliveries() == []
    assert [message.subscriber for message in after.poll("two").deliveries()] == ["two"]
