"""Moves subscriptions from one shard to another while events are being published: none is missed, none is delivered twice.

For a portion of subscriptions: (1) coordinators are notified that matches may come twice, and take each once from then on; (2) the target
takes the subscriptions over, provisionally; (3) the move is committed; (4) coordinators are notified that the target must have that version
and that the source need not be asked any more; (5) the source drops them; (6) coordinators are notified that the move is over. Steps 1, 4
and 6 are confirmed only when no batch is in progress that began before them. So a batch that does not know of the move finds everything on
the source, one that began during it on the source or on both, and one that began after step 4 on the target, even if the target has crashed
and loaded again in between.

A subscription may get another route while it moves. On the same shard fewer steps are needed (`_reroute`).

If the registry dies during a move, its successor begins as in step 1, makes all shards drop the subscriptions that they took over and do
not own, and ends as in step 6 (`settle`). The registry itself does the same if a shard stays away for too long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from actors.registry.change_writer import ChangeWriter
from actors.registry.changes import MoveSubscriptions
from actors.registry.columns import RebalanceReport, ShardColumns
from actors.transport.messages import News, RouteCount
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import PivotColumn, Route
from ray_pubsub.sharding.rebalance import Move, plan_rebalance
from ray_pubsub.sharding.rerouting import ReroutePlan, RouteGroup, fan_out, plan_reroutes

__all__ = ["Mover", "Rerouted"]

PORTION = 8192

ChosenAgain = Callable[[ShardColumns], list[Route]]
"""Returns the routes that subscriptions would get now, in the order of `all_numbers`."""


class Rerouted(NamedTuple):
    """What a look at all stored routes has led to."""

    plan: ReroutePlan
    subscriptions: int
    """The number of subscriptions that got another route."""


class MovingShards(Protocol):
    """The methods of shards that a move needs. Each waits for the shard and may raise UnavailableError."""

    def take_over(self, shard: int, columns: ShardColumns) -> None: ...

    def let_go(self, shard: int, lineage: str, version: int) -> int: ...

    def bring_up(self, shard: int, lineage: str, version: int) -> int: ...


class Mover:
    """Moves subscriptions. Only one rebalance or settlement runs at a time; changes are made between portions."""

    def __init__(
        self, writer: ChangeWriter, shards: MovingShards, wait_until_known: Callable[[int], None], timeout: float
    ) -> None:
        self._writer, self._store = writer, writer.store
        self._placement, self._announcer = writer.assignment.placement, writer.announcer
        self._shards = shards
        self._wait_until_known = wait_until_known
        self._timeout = timeout

    def settle(self) -> None:
        """Ends an interrupted move. Called when the registry starts, and before a rebalance. It waits for shards in the caller's thread
        and not in the thread that makes changes, so that changes go on."""
        if not self._announcer.moving:
            return
        shards, version = tuple(range(self._placement.shards)), self._store.version
        for shard in shards:
            self._shards.let_go(shard, self._announcer.lineage, version)

        def end() -> None:
            self._announcer.moving = False
            self._announcer.require(shards, version)
            self._notify(News(version, shards))

        self._run(end)

    def rebalance(
        self, frequencies: AttributeFrequencies, factor: float, chosen_again: ChosenAgain | None = None
    ) -> RebalanceReport:
        """Chooses routes again where that saves enough, then moves subscriptions until no shard has more than `factor` times the mean
        load. `chosen_again` returns the routes that stored subscriptions would get now."""
        self.settle()
        self._run(lambda: self._placement.reweigh(frequencies))
        before = self._placement.loads
        rerouted, visits = 0, None
        if chosen_again is not None and frequencies.events:
            plan, rerouted = self._reroute_all(frequencies, chosen_again)
            visits = (plan.before, plan.after)
        moved, moves = self._even_out(frequencies, factor)
        return RebalanceReport(moves, moved, before, self._placement.loads, rerouted, visits)

    def reroute(
        self, frequencies: AttributeFrequencies, factor: float, chosen_again: ChosenAgain, lasted: float
    ) -> Rerouted:
        """Chooses routes again where that saves enough, for a stream that has `lasted` for this number of events. Balances loads only if
        routes have changed."""
        self.settle()
        self._run(lambda: self._placement.reweigh(frequencies))
        done = self._reroute_all(frequencies, chosen_again, lasted)
        if done.subscriptions:
            self._even_out(frequencies, factor)
        return done

    def fan_out(self, frequencies: AttributeFrequencies) -> float:
        """Returns the number of shards that an event is expected to be sent to."""
        routes = ((shard, route) for shard, route, _ in self._announcer.route_counts())
        return fan_out(routes, self._placement.shards, frequencies)

    @property
    def subscriptions(self) -> int:
        """The number of stored subscriptions."""
        return sum(self._placement.sizes)

    def _even_out(self, frequencies: AttributeFrequencies, factor: float) -> tuple[int, list[Move]]:
        """Moves subscriptions until no shard has more than `factor` times the mean load. Returns how many, and the moves."""
        moves = plan_rebalance(self._store.groups(), self._placement.shards, frequencies, factor)
        moved = 0
        for move, numbers in zip(moves, self._store.members(moves), strict=True):
            try:
                moved += self._in_portions(numbers, move.source, move.target)
            finally:  # moved subscriptions must be counted where they are, even if the rest failed
                self._run(lambda move=move: self._place(move))
        return moved, moves

    def _reroute_all(
        self, frequencies: AttributeFrequencies, chosen_again: ChosenAgain, lasted: float = 0.0
    ) -> Rerouted:
        members: dict[tuple[int, Route, Route], NDArray[np.int64]] = {}
        groups: list[RouteGroup] = []
        for shard in range(self._placement.shards):
            columns = self._store.snapshot_for_shard(shard)
            if not len(columns):
                continue
            again = PivotColumn.of(chosen_again(columns))
            codes = np.concatenate([columns.routes, *(block.routes for block in columns.intervals)])
            keys, group, counts = np.unique(
                codes.astype(np.int64) << 32 | again.code, return_inverse=True, return_counts=True
            )
            by_group = np.split(columns.all_numbers[np.argsort(group, kind="stable")], np.cumsum(counts)[:-1])
            for key, own in zip(keys.tolist(), by_group, strict=True):
                found = RouteGroup(shard, self._store.route(key >> 32), again.routes[key & 0xFFFF_FFFF], len(own))
                groups.append(found)
                if found.route != found.again:
                    members[found[:3]] = np.sort(own)
        plan = plan_reroutes(groups, self._placement.shards, frequencies, lasted)
        done = sum(
            self._in_portions(members[each.source, each.route, each.again], each.source, each.target, each.again)
            for each in plan.reroutes
        )
        return Rerouted(plan, done)

    def _in_portions(self, numbers: NDArray[np.int64], source: int, target: int, route: Route | None = None) -> int:
        """Moves these subscriptions in portions, to another route if one is given. Changes go on between portions. Returns the number
        moved."""
        done = 0
        for start in range(0, len(numbers), PORTION):
            portion = numbers[start : start + PORTION]
            done += self._run(lambda portion=portion: self._move(portion, source, target, route))
        return done

    def _run(self, work: Any) -> Any:
        return self._writer.run(work, self._timeout)

    def _move(self, numbers: NDArray[np.int64], source: int, target: int, again: Route | None = None) -> int:
        """Moves one portion. Runs in the thread that makes all changes, so that nothing else changes meanwhile."""
        announcer = self._announcer
        columns = self._store.columns_of(numbers, source)  # an earlier move of the plan may have moved some
        numbers = columns.all_numbers
        if not len(numbers):
            return 0
        routes = self._routes(columns)
        change = MoveSubscriptions(numbers, source, target, route=again)
        leaving = [(source, route, count) for route, count in routes]
        arriving = [(target, again or route, count) for route, count in routes]
        if source == target:
            self._reroute(change, arriving, leaving)
            return len(numbers)
        announcer.moving = True
        self._notify(News(self._store.version, added=arriving, moving=True, barrier=True))
        try:
            self._shards.take_over(target, columns)
            (answer,) = self._store.commit([change])
        except BaseException:
            # Matches may come twice until the target has let go; coordinators take each once.
            self._notify(News(self._store.version, removed=arriving, moving=True))
            raise
        version = answer.version
        self._count(arriving, leaving)  # the next change may concern these subscriptions
        announcer.need((target,), version)
        self._notify(News(version, (target,), removed=leaving, moving=True, barrier=True))
        self._shards.bring_up(source, announcer.lineage, version)
        announcer.need((source,), version)
        announcer.moving = False
        # Nothing may change before the batches are over that may have found these subscriptions on the source. Otherwise a subscription
        # that is replaced on the target next would be in their answers twice.
        self._notify(News(version, (source,), barrier=True))
        return len(numbers)

    def _reroute(self, change: MoveSubscriptions, arriving: list[RouteCount], leaving: list[RouteCount]) -> None:
        """Gives subscriptions another route on the same shard. Both routes send every event that can match to that shard, so batches may
        use either meanwhile."""
        self._notify(News(self._store.version, added=arriving))
        try:
            (answer,) = self._store.commit([change])
        except BaseException:
            self._notify(News(self._store.version, removed=arriving))
            raise
        self._count(arriving, leaving)
        self._notify(News(answer.version, removed=leaving))

    def _count(self, arriving: list[RouteCount], leaving: list[RouteCount]) -> None:
        for shard, route, count in leaving:
            self._placement.remove(route, shard, count)
        for shard, route, count in arriving:
            self._placement.put(route, shard, count)

    def _place(self, move: Move) -> None:
        """Makes new subscriptions of the moved parts go where the moved ones are now."""
        self._placement.apply([move])
        self._placement.recount(self._announcer.route_counts())
        self._writer.store_placement()

    def _routes(self, columns: ShardColumns) -> list[tuple[Route, int]]:
        counted: Counter[int] = Counter(columns.routes.tolist())
        for block in columns.intervals:
            counted.update(block.routes.tolist())
        return [(self._store.route(code), count) for code, count in counted.items()]

    def _notify(self, news: News) -> None:
        self._wait_until_known(self._announcer.notify(news))
