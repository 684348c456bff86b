"""Deliveries read by sequence number: a range reads the same until it is acknowledged, on disk and in memory, beside mailboxes that are
polled."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.offsets.offset_reading import Place
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.store.store import MailboxStore
from ray_pubsub.errors import SettingError, StoreError
from tests.unit.mailboxes.delivery_samples import SimulatedClock, batch_of

NAMES = {1: "stream", 2: "other"}


def opened(path: Path | None, **settings: Any) -> Mailboxes:
    given = MailboxSettings(**{"levels": ["low", "high"], **settings})
    boxes = Mailboxes(MailboxStore(path and path / "mail.db"), given, clock=SimulatedClock())
    boxes.introduce(NAMES)
    return boxes


def read(boxes: Mailboxes, after: Place, up_to: int | None = None) -> list[tuple[int, Any]]:
    ends = boxes.offsets.bounds("stream", after, up_to, 10_000)
    if not ends:
        return []
    found = boxes.offsets.read("stream", after, ends[-1])
    return list(zip(found.sequence.tolist(), found.event_id.tolist(), strict=True))


@pytest.mark.parametrize("durable", [True, False])
def test_what_waits_is_read_in_order_again_and_again(tmp_path: Path, durable: bool) -> None:
    boxes = opened(tmp_path if durable else None)
    boxes.deliver(batch_of((0, "a", 1, 0), (0, "b", 2, 0), (1, "a", 1, 1), events=["e0", "e1"]))
    start = boxes.offsets.begin("stream")
    boxes.deliver(batch_of((0, "a", 1, 0), events=["e2"], contents=[{"x": 1}]))
    first = read(boxes, start)
    assert [event for _, event in first] == ["e1", "e0", "e2"]  # by level within a batch: that is the order of delivery
    assert read(boxes, start) == first
    ends = boxes.offsets.bounds("stream", start, None, 2)
    assert len(ends) == 2 and ends[0] == first[1][0]
    columns = boxes.offsets.read("stream", Place(start.store, ends[0]), ends[1])
    assert (columns.event_id.tolist(), [message.event for message in columns.deliveries()]) == (["e2"], [{"x": 1}])
    assert boxes.offsets.ack_through("stream", Place(start.store, ends[0])) == 2
    assert boxes.offsets.ack_through("stream", Place(start.store, ends[0])) == 0
    assert read(boxes, start) == first[2:]
    assert (boxes.stats_of("stream").waiting, boxes.stats_of("stream").acked) == (1, 2)
    assert [message.event_id for message in boxes.poll("other").deliveries()] == ["e0"]


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    boxes = opened(tmp_path)
    start = boxes.offsets.begin("stream")
    boxes.deliver(batch_of((0, "a", 1, 0), (1, "a", 1, 0), events=["e0", "e1"]))
    boxes.marks.set("query", 4)
    boxes.marks.set("query", 3)
    after = opened(tmp_path)
    assert after.marks.last("query") == 4 and after.marks.last("another") is None
    with pytest.raises(SettingError, match="offset"):
        after.poll("stream").deliveries()
    found = read(after, start)
    assert [event for _, event in found] == ["e0", "e1"]
    after.offsets.ack_through("stream", Place(start.store, found[0][0]))
    last = opened(tmp_path)
    assert read(last, start) == found[1:]
    last.deliver(batch_of((0, "a", 1, 0), events=["e2"]))
    assert [event for _, event in read(last, Place(start.store, found[1][0]))] == ["e2"]


def test_mailboxes_in_memory_are_others_after_a_restart() -> None:
    place = opened(None).offsets.begin("stream")
    boxes = opened(None)
    for call in (lambda: read(boxes, place), lambda: boxes.offsets.ack_through("stream", place)):
        with pytest.raises(StoreError, match="new checkpoint"):
            call()
    assert boxes.marks.last("query") is None
    boxes.marks.set("query", 0)
    assert boxes.marks.last("query") == 0


def test_a_mailbox_is_read_in_one_way_at_a_time(tmp_path: Path) -> None:
    boxes = opened(tmp_path)
    boxes.deliver(batch_of((0, "a", 1, 0), (1, "b", 1, 0), (2, "c", 1, 0), events=["e0", "e1", "e2"]))
    [polled, acked] = boxes.poll("stream", 2).deliveries()
    boxes.ack("stream", acked)
    start = boxes.offsets.begin("stream")
    assert [event for _, event in read(boxes, start)] == ["e0", "e2"]  # what was in flight too
    assert boxes.ack("stream", polled).accepted == 0  # its receipt no longer holds
    for call in (
        lambda: boxes.poll("stream").deliveries(),
        lambda: boxes.redrive("stream"),
        lambda: boxes.poll(1).deliveries(),
    ):
        with pytest.raises(SettingError, match="read by offset"):
            call()
    stats = boxes.stats_of("stream")
    assert stats.delivered == stats.acked + stats.waiting == 3
    assert boxes.offsets.end("stream") == 2
    assert [message.event_id for message in boxes.poll("stream").deliveries()] == ["e0", "e2"]
    assert boxes.offsets.end("stream") == 0  # said again; both are in flight
    assert boxes.offsets.begin("nobody yet").sequence >= 0
    boxes.introduce({7: "nobody yet"})
    boxes.deliver(batch_of((0, "a", 7, 0), events=["e9"]))
    with pytest.raises(SettingError, match="read by offset"):
        boxes.poll("nobody yet").deliveries()


def test_dead_letters_are_not_read(tmp_path: Path) -> None:
    boxes = opened(tmp_path, delivery_limit=1)
    boxes.deliver(batch_of((0, "a", 1, 0), (1, "b", 1, 0), events=["e0", "e1"]))
    boxes.nack("stream", boxes.poll("stream", 1).deliveries())
    start = boxes.offsets.begin("stream")
    assert [event for _, event in read(boxes, start)] == ["e1"]
    assert [letter.event_id for letter in boxes.dead_letters("stream")] == ["e0"]
    boxes.offsets.ack_through("stream", Place(start.store, 100))
    assert [letter.event_id for letter in boxes.dead_letters("stream")] == ["e0"]
    assert boxes.remove("stream") == 1


def test_it_is_as_full_as_any_other() -> None:
    boxes = opened(None, capacity=3, capacity_bytes=10_000)
    start = boxes.offsets.begin("stream")
    report = boxes.deliver(batch_of(*((row, "a", 1, 0) for row in range(5)), events=list(range(5)), keys=list("abcde")))
    assert (report.delivered, report.rejected.tolist()) == (3, [3, 4])
    boxes.offsets.ack_through("stream", Place(start.store, 100))
    again = boxes.deliver(batch_of(*((row, "a", 1, 0) for row in range(5)), events=list(range(5)), keys=list("abcde")))
    assert (again.delivered, again.duplicates) == (2, 3)
    assert [event for _, event in read(boxes, start)] == [3, 4]
    large = boxes.deliver(batch_of((0, "a", 1, 0), events=[9], contents=[{"x": "y" * 20_000}]))
    assert len(large.rejected) == 1


@pytest.mark.parametrize("settings", [{"overflow": "drop-oldest"}, {"overflow": "dead-letter"}, {"expired": "drop"}])
def test_nothing_may_leave_by_itself(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="read by offset"):
        opened(None, **settings).offsets.begin("stream")


def test_against_a_list(tmp_path: Path) -> None:
    """Random deliveries to two mailboxes, reads, acknowledgements and restarts, beside lists."""
    draw = random.Random(5)
    boxes, waiting, number = opened(tmp_path), [], 0
    place = boxes.offsets.begin("stream")
    for _ in range(300):
        action = draw.random()
        if action < 0.5:
            rows = [(row, "s", draw.choice([1, 2]), 0) for row in range(draw.randrange(1, 40))]
            boxes.deliver(batch_of(*rows, events=list(range(number, number + len(rows)))))
            waiting += [number + row for row, _, code, _ in rows if code == 1]
            number += len(rows)
        elif action < 0.7:
            ends = boxes.offsets.bounds("stream", place, None, draw.randrange(1, 50))
            found: list[int] = []
            after = place.sequence
            for end in ends:
                found += boxes.offsets.read("stream", Place(place.store, after), end).event_id.tolist()
                after = end
            assert found == waiting
        elif action < 0.9:
            ends = boxes.offsets.bounds("stream", place, None, draw.randrange(1, 50))
            if ends:
                taken = boxes.offsets.read("stream", place, ends[0])
                place = Place(place.store, ends[0])
                assert boxes.offsets.ack_through("stream", place) == len(taken)
                waiting = waiting[len(taken) :]
        elif action < 0.95:
            boxes.ack("other", boxes.poll("other", 100).deliveries())
        else:
            boxes.close()
            boxes = opened(tmp_path)
        assert boxes.stats_of("stream").waiting == len(waiting)
    assert np.array_equal([event for _, event in read(boxes, place)], waiting)
