"""Several producers and consumers at once: nothing is lost or doubled, order is kept, the counts add up."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from actors.mailboxes.queue.entries import Lost
from actors.mailboxes.queue.policy import Strict, Weighted
from actors.mailboxes.queue.priority_queue import PriorityQueue

LEVELS = ["low", "middle", "high"]
PRODUCERS, CONSUMERS, EACH = 3, 3, 1500


@pytest.fixture(autouse=True)
def threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("policy", [Strict(), Strict(0.0), Weighted([1, 2, 4])], ids=repr)
@pytest.mark.parametrize("overflow", ["reject", "drop-oldest", "drop-lowest"])
def test_conservation(policy: Strict | Weighted, overflow: str) -> None:
    queue = PriorityQueue(LEVELS, policy=policy, capacity=200, overflow=overflow)  # type: ignore[arg-type]

    def produce(producer: int) -> tuple[list[tuple[int, int]], list[Lost]]:
        random = Random(producer)
        rejected: list[tuple[int, int]] = []
        lost: list[Lost] = []
        number = 0
        while number < EACH:
            batch = [(producer, number + at) for at in range(min(random.randrange(1, 20), EACH - number))]
            number += len(batch)
            levels = [random.randrange(3) for _ in batch]
            admission = queue.put_many(batch, levels)
            rejected += [batch[position] for position in admission.rejected]
            lost += admission.lost
            assert admission.accepted + len(admission.rejected) == len(batch)
        return rejected, lost

    def consume(consumer: int) -> list[tuple[int, int]]:
        random = Random(consumer)
        kept = []
        while True:
            last = all(future.done() for future in producers)
            deliveries = queue.take(random.randrange(1, 30)).deliveries
            orders = [(delivery.level, delivery.order) for delivery in deliveries]
            for level in range(3):
                own = [order for at, order in orders if at == level]
                assert own == sorted(own)
            failed = [delivery for delivery in deliveries if random.random() < 0.2]
            assert queue.requeue(failed) == len(failed)
            back = {delivery.order for delivery in failed}
            kept += [delivery.item for delivery in deliveries if delivery.order not in back]
            if last and not deliveries:
                return kept

    with ThreadPoolExecutor(PRODUCERS + CONSUMERS) as pool:
        producers = [pool.submit(produce, number) for number in range(PRODUCERS)]
        consumers = [pool.submit(consume, number) for number in range(CONSUMERS)]
        fates: Counter[tuple[int, int]] = Counter()
        for future in producers:
            rejected, lost = future.result()
            fates.update(rejected)
            fates.update(entry.item for entry in lost)
        for consumer in consumers:
            fates.update(consumer.result())
    fates.update(delivery.item for delivery in queue.take(10**9).deliveries)
    assert len(queue) == 0
    assert fates == Counter((producer, number) for producer in range(PRODUCERS) for number in range(EACH))
    stats = queue.stats()
    assert sum(level.put + level.rejected for level in stats) == PRODUCERS * EACH
    for level in stats:
        assert level.put == level.on_time + level.late + level.dropped
