"""Subscriptions that go from one shard to another while events are being published: none is missed, none is delivered twice.

For a portion of subscriptions: (1) coordinators are told that matches may come twice, and take each once from then on; (2) the target takes
the subscriptions over, for the time being; (3) the move is committed; (4) coordinators are told that the target must have that version, and
that the source need not be asked any more; (5) the source lets go; (6) coordinators are told that it is over. Steps 1, 4 and 6 are
confirmed only when no batch is under way that began before them. So a batch that does not know of the move finds everything on the source,
one that began during it on the source or on both, and one that began after step 4 on the target, even if that has crashed and loaded anew
in between.

If the registry dies on the way, its successor begins as in step 1, has all shards drop what they took over and do not own, and ends as in
step 6 (`settle`). So does the registry itself if a shard stays away for too long.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from actors.change_writer import ChangeWriter
from actors.messages import News, RouteCount
from actors.registry_changes import MoveSubscriptions, SetPlacement
from actors.registry_columns import ShardColumns
from actors.shard_content import all_numbers
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.rebalance import Move, plan_rebalance

__all__ = ["Mover", "RebalanceReport"]

logger = logging.getLogger(__name__)

PORTION = 8192


class ShardsOfMover(Protocol):
    """Every method waits for the shard, and raises UnavailableError."""

    def take_over(self, shard: int, columns: ShardColumns) -> None: ...

    def let_go(self, shard: int, lineage: str, version: int) -> int: ...

    def bring_up(self, shard: int, lineage: str, version: int) -> int: ...


@dataclass(frozen=True, slots=True)
class RebalanceReport:
    """What was moved, and per shard the load (subscriptions times the frequency of their pivots) before and after."""

    moves: list[Move]
    moved: int
    before: list[float]
    after: list[float]


class Mover:
    """One rebalance or settlement at a time; changes go on between portions."""

    def __init__(self, writer: ChangeWriter, shards: ShardsOfMover, barrier_known: Any, timeout: float) -> None:
        self._writer = writer
        self._shards = shards
        self._wait_until_known = barrier_known
        self._timeout = timeout

    def settle(self) -> None:
        """Ends whatever was interrupted. Called when the registry starts, and before a rebalance. Shards are waited for here and not
        in the thread that makes changes, which go on."""
        writer = self._writer
        if not writer.moving:
            return
        shards, version = tuple(range(writer.placement.shards)), writer.store.version
        for shard in shards:
            self._shards.let_go(shard, writer.lineage, version)

        def end() -> None:
            writer.moving = False
            writer.have(shards, version)
            self._tell(News(version, shards))

        self._work(end)

    def rebalance(self, frequencies: AttributeFrequencies, factor: float) -> RebalanceReport:
        writer = self._writer
        self.settle()
        self._work(lambda: writer.placement.reweigh(frequencies))
        before = writer.placement.loads
        moves = plan_rebalance(writer.store.groups(), writer.placement.shards, frequencies, factor)
        moved = 0
        for move, numbers in zip(moves, writer.store.members(moves), strict=True):
            try:
                for start in range(0, len(numbers), PORTION):
                    portion = numbers[start : start + PORTION]
                    moved += self._work(lambda move=move, portion=portion: self._move(move, portion))
            finally:  # what was moved is counted where it is, whatever became of the rest
                self._work(lambda move=move: self._placed(move))
        return RebalanceReport(moves, moved, before, writer.placement.loads)

    def _work(self, run: Any) -> Any:
        return self._writer.work(run, self._timeout)

    def _move(self, move: Move, numbers: NDArray[np.int64]) -> int:
        """Runs in the thread that makes all changes: nothing else changes meanwhile."""
        writer, source, target = self._writer, move.source, move.target
        columns = writer.store.columns_of(numbers, source)  # an earlier move of the plan may have taken some
        numbers = all_numbers(columns)
        if not len(numbers):
            return 0
        routes = self._routes(columns)
        writer.moving = True
        arriving = [(target, route, count) for _, route, count in routes]
        self._tell(News(writer.store.version, added=arriving, moving=True, barrier=True))
        try:
            self._shards.take_over(target, columns)
            version = writer.store.commit([MoveSubscriptions(numbers, source, target)]).version
        except BaseException:
            # Matches may go on coming twice until the target is known to have let go; coordinators see to that.
            self._tell(News(writer.store.version, removed=arriving, moving=True))
            raise
        writer.moved(routes, source, target)
        writer.need((target,), version)
        leaving = [(source, route, count) for _, route, count in routes]
        self._tell(News(version, (target,), removed=leaving, moving=True, barrier=True))
        self._shards.bring_up(source, writer.lineage, version)
        writer.need((source,), version)
        writer.moving = False
        # Nothing changes before those batches are over that may have found them on the source: a subscription that is replaced
        # on the target next would be in their answers twice.
        self._tell(News(version, (source,), barrier=True))
        return len(numbers)

    def _placed(self, move: Move) -> None:
        """New subscriptions of these parts go where the old ones are."""
        writer = self._writer
        writer.placement.apply([move])
        writer.placement.recount(writer.route_counts())
        writer.store.commit([SetPlacement(writer.placement.state())])

    def _routes(self, columns: ShardColumns) -> list[RouteCount]:
        counted: Counter[int] = Counter(columns.routes.tolist())
        for block in columns.intervals:
            counted.update(block.routes.tolist())
        return [(0, self._writer.store.route(code), count) for code, count in counted.items()]

    def _tell(self, news: News) -> None:
        self._wait_until_known(self._writer.tell(news))
