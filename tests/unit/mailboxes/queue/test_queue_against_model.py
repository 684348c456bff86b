"""Random operations on the queue and on the model of it: the same deliveries, losses and counts, in the same order."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.mailboxes.queue.entries import Lost, TakenEntry
from actors.mailboxes.queue.policy import Strict, Weighted
from actors.mailboxes.queue.priority_queue import PriorityQueue
from tests.examples import scaled
from tests.unit.mailboxes.queue.queue_model import Entry, Model, SimulatedClock

# Quarters of a second are exact, so that sums and differences of times are.
times = st.integers(0, 12).map(lambda quarters: quarters / 4)


@st.composite
def policies(draw: st.DrawFn, levels: int) -> Strict | Weighted:
    if draw(st.booleans()):
        return Strict(draw(st.none() | times))
    return Weighted(draw(st.lists(st.integers(1, 4), min_size=levels, max_size=levels)))


def of_model(entries: list[Entry]) -> list[tuple[Any, ...]]:
    return [(entry.order, entry.enqueued, entry.due, entry.size, entry.level, entry.item) for entry in entries]


def of_queue(entries: list[TakenEntry] | list[Lost] | Any) -> list[tuple[Any, ...]]:
    return [tuple(entry[:6]) for entry in entries]


class QueueAgainstModel(RuleBasedStateMachine):
    @initialize(data=st.data(), levels=st.integers(1, 4), capacity=st.none() | st.integers(1, 12))
    def start(self, data: st.DataObject, levels: int, capacity: int | None) -> None:
        self.clock = SimulatedClock()
        names = [f"level {number}" for number in range(levels)]
        deadlines = data.draw(st.lists(times | st.just(inf), min_size=levels, max_size=levels))
        policy = data.draw(policies(levels))
        capacity_bytes = data.draw(st.none() | st.integers(1, 20))
        overflow = data.draw(st.sampled_from(["reject", "drop-oldest", "drop-lowest"]))
        expired = data.draw(st.sampled_from(["deliver-late", "drop"]))
        self.queue = PriorityQueue(
            names,
            deadlines=deadlines,
            policy=policy,
            capacity=capacity,
            capacity_bytes=capacity_bytes,
            overflow=overflow,  # type: ignore[arg-type]
            expired=expired,  # type: ignore[arg-type]
            clock=self.clock,
        )
        self.model = Model(
            levels, deadlines, policy, capacity or inf, capacity_bytes or inf, overflow, expired == "drop"
        )
        self.in_flight: list[TakenEntry] = []
        self.requeued: Counter[int] = Counter()
        self.over_by = 0
        self.items = 0

    def model_entry(self, level: int, enqueued: float | None, size: int) -> Entry:
        self.items += 1
        time = self.clock.now if enqueued is None else min(enqueued, self.clock.now)
        return Entry(-1, f"item {self.items}", level, time, time + self.model.deadlines[level], size)

    def check_put(self, admission: Any, batch: list[Entry]) -> None:
        rejected, lost = self.model.put(batch, self.clock.now)
        assert list(admission.rejected) == rejected
        assert admission.accepted == len(batch) - len(rejected)
        assert of_queue(admission.lost) == of_model(lost)
        assert [entry.reason for entry in admission.lost] == [entry.fate for entry in lost]
        if self.model.overflow != "reject":
            self.over_by = 0

    @rule(
        data=st.data(),
        lengths=st.lists(st.integers(0, 6), max_size=4),
        one_size=st.booleans(),
        most=st.sampled_from([8, 25]),
    )
    def put(self, data: st.DataObject, lengths: list[int], one_size: bool, most: int) -> None:
        enqueued = data.draw(st.none() | st.integers(-8, 4).map(lambda quarters: self.clock.now + quarters / 4))
        runs: list[tuple[int, list[str], list[int] | int]] = []
        batch: list[Entry] = []
        for length in lengths:
            level = data.draw(st.integers(0, self.model.levels - 1))
            sizes = data.draw(st.lists(st.integers(0, most), min_size=length, max_size=length))
            sizes = sizes[:1] * length if one_size else sizes
            entries = [self.model_entry(level, enqueued, size) for size in sizes]
            runs.append((level, [entry.item for entry in entries], sizes[0] if one_size and sizes else sizes))
            batch += entries
        sizes = [entry.size for entry in batch]
        refused = self.queue.refused([1] * len(batch), sizes)
        admission = self.queue.put(runs, enqueued=enqueued)
        if not self.model.drops_expired:  # which makes room first
            assert list(refused) == list(admission.rejected)
        self.check_put(admission, batch)

    @rule(data=st.data(), length=st.integers(1, 5))
    def put_regardless(self, data: st.DataObject, length: int) -> None:
        level = data.draw(st.integers(0, self.model.levels - 1))
        entries = [self.model_entry(level, None, 1) for _ in range(length)]
        admission = self.queue.put([(level, [entry.item for entry in entries], 1)], regardless=True)
        assert (admission.accepted, admission.rejected, admission.lost) == (length, (), ())
        for entry in entries:
            entry.order = len(self.model.entries)
            self.model.entries.append(entry)
        self.over_by += length

    @rule(count=st.integers(0, 20))
    def take(self, count: int) -> None:
        taken = self.queue.take(count)
        deliveries, lost = self.model.take(count, self.clock.now)
        assert of_queue(taken.deliveries) == of_model(deliveries)
        assert [delivery.on_time for delivery in taken.deliveries] == [entry.fate == "on_time" for entry in deliveries]
        assert of_queue(taken.lost) == of_model(lost)
        assert {entry.reason for entry in taken.lost} <= {"expired"}
        self.in_flight += taken.deliveries

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.in_flight), min_size=1, unique_by=lambda each: each.order))
        assert self.queue.requeue(chosen) == len(chosen)
        assert self.queue.requeue(chosen) == 0
        for delivery in chosen:
            self.in_flight.remove(delivery)
            self.model.entries[delivery.order].fate = "waiting"
            self.requeued[delivery.level] += 1
            self.over_by += 1

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def requeue_and_withdraw(self, data: st.DataObject) -> None:
        """Some stand in the middle of those that came back; they count as delivered when they were taken."""
        chosen = data.draw(st.lists(st.sampled_from(self.in_flight), min_size=1, unique_by=lambda each: each.order))
        assert not any(self.queue.withdraw(delivery) for delivery in chosen)
        self.queue.requeue(chosen)
        for delivery in chosen:
            self.requeued[delivery.level] += 1
        withdrawn = data.draw(st.lists(st.sampled_from(chosen), unique_by=lambda each: each.order))
        for delivery in withdrawn:
            assert self.queue.withdraw(delivery)
            assert not self.queue.withdraw(delivery)
        for delivery in chosen:
            self.in_flight.remove(delivery)
            if delivery not in withdrawn:
                self.model.entries[delivery.order].fate = "waiting"
                self.over_by += 1

    @rule(passed=times)
    def time_passes(self, passed: float) -> None:
        self.clock.now += passed

    @invariant()
    def bounded(self) -> None:
        """What was requeued is the only thing that may exceed the bound."""
        assert len(self.queue) == len(self.model.waiting())
        assert self.queue.waiting_bytes == sum(entry.size for entry in self.model.waiting())
        assert len(self.queue) <= self.model.capacity + self.over_by
        if not self.over_by:
            assert self.queue.waiting_bytes <= self.model.capacity_bytes

    @invariant()
    def counted(self) -> None:
        for level, stats in enumerate(self.queue.stats()):
            assert stats.put == stats.on_time + stats.late + stats.expired + stats.dropped + stats.waiting
            assert stats.put == sum(entry.level == level for entry in self.model.entries)
            for fate in ("on_time", "late", "expired", "dropped", "waiting"):
                assert getattr(stats, fate) == self.model.fates(level, fate), fate
            assert stats.delivered == stats.on_time + stats.late
            assert stats.rejected == self.model.rejected[level]
            assert stats.requeued == self.requeued[level]
            waiting = self.model.waiting(level)
            assert stats.oldest_wait == (self.clock.now - waiting[0].enqueued if waiting else None)
            assert stats.overdue == sum(entry.due < self.clock.now for entry in waiting)
            assert stats.edor == self.model.edor(level, self.clock.now)


TestQueueAgainstModel = QueueAgainstModel.TestCase
TestQueueAgainstModel.settings = settings(max_examples=scaled(75), stateful_step_count=30)
