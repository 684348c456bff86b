"""How a change becomes part of the server: placed, on disk, on its way to its shard, known to every coordinator; only then acknowledged.

One thread makes all changes (`group_commit.py`), so they have one order. A shard need not have confirmed: coordinators know which
version each shard must have, and no publication is answered by a shard that is behind it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from actors.coordinator_leases import CoordinatorLeases
from actors.group_commit import GroupCommitter
from actors.interval_blocks import IntervalLoad
from actors.messages import NO_NUMBERS, CoordinatorState, News, Note, RouteCount, RuleChange, ShardPush
from actors.recent_places import RecentPlaces
from actors.registry_bulk import TextColumns
from actors.registry_changes import (
    Answer,
    BulkAnswer,
    Change,
    PutRule,
    RemoveRule,
    SetPlacement,
    Subscribe,
    Unsubscribe,
)
from actors.registry_columns import ShardChanges, ShardColumns
from actors.registry_store import RegistryStore
from ray_pubsub.errors import RayPubSubError, UnavailableError
from ray_pubsub.model.id_column import ids_of
from ray_pubsub.sharding.pivots import PivotColumn, Route
from ray_pubsub.sharding.placement import Placement

__all__ = ["ChangeWriter", "Outlets"]

logger = logging.getLogger(__name__)


class Outlets(Protocol):
    """How the registry reaches the others."""

    def push(self, shard: int, push: ShardPush) -> None:
        """Sends; does not wait, unless very much is on its way."""

    def catch_up(self, shard: int, lineage: str, version: int) -> None:
        """Tells a shard that there is more than was sent to it; does not wait."""

    def tell(self, note: Note, coordinators: dict[int, int]) -> dict[int, bool]:
        """Tells coordinators, given with their epochs; which of them have confirmed it."""


@dataclass(slots=True)
class Work:
    """Something that is done between two groups of changes, by the thread that makes them."""

    run: Callable[[], Any]


@dataclass(slots=True)
class Effects:
    """What a transaction has changed, collected for those who must know."""

    added: Counter[tuple[int, Route]] = field(default_factory=Counter)
    removed: Counter[tuple[int, Route]] = field(default_factory=Counter)
    gone: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Per shard, numbers to take out."""
    came: defaultdict[int, list[tuple[int, Subscribe]]] = field(default_factory=lambda: defaultdict(list))
    """Per shard, numbers and subscriptions to put in."""
    in_bulk: set[int] = field(default_factory=set)
    """Shards that had better ask."""
    rules: list[RuleChange] = field(default_factory=list)

    @property
    def touched(self) -> tuple[int, ...]:
        return tuple(sorted({*self.gone, *self.came, *self.in_bulk}))


class ChangeWriter:
    """Everything but `state_for_coordinator` runs in the committer's thread, by way of `submit`."""

    def __init__(
        self,
        store: RegistryStore,
        placement: Placement,
        lineage: str,
        leases: CoordinatorLeases,
        outlets: Outlets,
        longest: float = 65.0,
    ) -> None:
        """`longest`: seconds that a publication may last."""
        self.store = store
        self.placement = placement
        self.lineage = lineage
        self._leases = leases
        self._outlets = outlets
        self._state = threading.RLock()
        """Held while the store and what is known of it in memory change together."""
        self._routes: Counter[tuple[int, Route]] = Counter(
            {(shard, route): count for shard, route, count in store.route_counts()}
        )
        placement.recount((shard, route, count) for (shard, route), count in self._routes.items())
        self._placement_version = placement.version
        self._needed = np.full(placement.shards, store.version, np.int64)
        self._pushed = self._needed.copy()
        """Per shard, the version that the last push ended with."""
        self._recent = RecentPlaces(longest)
        self._serial = 0
        self._last_subscriber = max((code for code, _ in store.subscribers_after()), default=0)
        self.moving = True
        """Until it is known that no shard has anything left of a move that a crash has interrupted."""
        self.committer: GroupCommitter[Any, Any] = GroupCommitter(self._perform, name="registry-changes")

    def submit(self, change: Change, timeout: float) -> Answer:
        answer: Answer = self._waited(change, timeout)
        return answer

    def work(self, run: Callable[[], Any], timeout: float) -> Any:
        """What `run` gives, in the thread that makes changes."""
        return self._waited(Work(run), timeout)

    def _waited(self, item: Change | Work, timeout: float) -> Any:
        try:
            return self.committer.commit(item, timeout)
        except TimeoutError:
            raise UnavailableError("the registry", f"did not get to it within {timeout:g} s") from None

    def state_for_coordinator(self, coordinator: int, epoch: int, age: float = 0.0) -> CoordinatorState:
        """Everything, as of now; from now on it is told the rest."""
        with self._state:
            state = CoordinatorState(
                epoch,
                self.store.epoch,
                self.lineage,
                self._serial,
                self.store.version,
                self._needed.copy(),
                self.route_counts(),
                dict(self.store.subscribers_after()),
                self.store.rules(),
                self.moving,
                self._leases.seconds,
            )
            self._leases.attach(coordinator, epoch, self._serial, age)
        return state

    def route_counts(self) -> list[RouteCount]:
        """Shard, route and how many subscriptions."""
        with self._state:
            return [(shard, route, count) for (shard, route), count in self._routes.items()]

    @property
    def needed(self) -> list[int]:
        """Per shard, the version that it must have."""
        found: list[int] = self._needed.tolist()
        return found

    @property
    def serial(self) -> int:
        return self._serial

    # ------------------------------------------------------------------------------------------------------------ groups

    def _perform(self, group: list[Change | Work]) -> Sequence[Any]:
        """What became of each. One by one where something must be done for itself, the rest in one transaction."""
        results: dict[int, Any] = {}
        changes = [(place, item) for place, item in enumerate(group) if not isinstance(item, Work)]
        if changes:
            answers = self._commit([item for _, item in changes])
            results.update(zip((place for place, _ in changes), answers, strict=True))
        for place, item in enumerate(group):
            if isinstance(item, Work):
                try:
                    results[place] = item.run()
                except Exception as error:
                    results[place] = error
        return [results[place] for place in range(len(group))]

    def _commit(self, changes: list[Change]) -> list[Answer | RayPubSubError]:
        with self._state:
            placed = self._place(changes)
            try:
                committed = self.store.commit(placed)
            except BaseException:
                for change in placed:
                    if isinstance(change, Subscribe):
                        self.placement.remove(change.route, change.shard)
                raise

            def follow(effects: Effects) -> None:
                for change, answer in zip(placed, committed.answers, strict=True):
                    self._follow(change, answer, effects)

            serial = self._pass_on(follow)
        self._leases.wait_until_known(serial)
        return committed.answers

    def _pass_on(self, follow: Callable[[Effects], None]) -> int:
        """What was committed, to those who must know. It is on disk and never tried again: if this fails, everybody reads what there is."""
        try:
            effects = Effects()
            follow(effects)
            serial = self._send(effects)
            self._keep_placement()
            return serial
        except Exception:
            logger.exception("what was committed as version %d could not be passed on", self.store.version)
            return self._start_over()

    def _start_over(self) -> int:
        """Counts are made anew from the store, shards must have all that is in it, and coordinators ask for everything."""
        self._routes = Counter({(shard, route): count for shard, route, count in self.store.route_counts()})
        self.placement.recount(self.route_counts())
        self._needed[:] = self._pushed[:] = self.store.version
        self._serial += 1
        for coordinator in self._leases.attached():
            self._leases.miss(coordinator, self._serial)
        return self._serial

    def _place(self, changes: list[Change]) -> list[Change]:
        """Every new subscription gets a shard; one that replaces another stays where that is, so that it is replaced in one step."""
        there = self.store.shards_of([change.id for change in changes if isinstance(change, Subscribe)])
        placed: list[Change] = []
        for change in changes:
            if isinstance(change, Subscribe):
                shard = there.get(change.id, self._recent.find(change.id))
                if shard is None:
                    shard = self.placement.place(change.route, change.id)
                else:
                    self.placement.put(change.route, shard)
                there[change.id] = shard
                placed.append(replace(change, shard=shard))
                continue
            placed.append(change)
        return placed

    def _follow(self, change: Change, answer: Answer | RayPubSubError, effects: Effects) -> None:
        """Counts what came and what went."""
        if not isinstance(answer, Answer) or answer.repeated:
            if isinstance(change, Subscribe):
                self.placement.remove(change.route, change.shard)
            return
        if isinstance(change, Subscribe):
            effects.came[change.shard].append((answer.number, change))
            effects.added[change.shard, change.route] += 1
        if answer.gone is not None:
            if isinstance(change, Unsubscribe):
                self._recent.leave(change.id, answer.gone.shard)
            self.placement.remove(answer.gone.route, answer.gone.shard)
            effects.gone[answer.gone.shard].append(answer.gone.number)
            effects.removed[answer.gone.shard, answer.gone.route] += 1
        if isinstance(change, PutRule):
            effects.rules.append(RuleChange(change.id, change.level, change.expression))
        elif isinstance(change, RemoveRule) and answer.found:
            effects.rules.append(RuleChange(change.id))

    def _keep_placement(self) -> None:
        """After everybody was told of the change itself, which is done whatever becomes of this."""
        if self.placement.version != self._placement_version:
            self.store.commit([SetPlacement(self.placement.state())])
            self._placement_version = self.placement.version

    # ------------------------------------------------------------------------------------------------------------ bulk

    def put_texts(self, columns: TextColumns, routes: Sequence[Route], request: str | None) -> BulkAnswer:
        """Many subscriptions, which were parsed, in one transaction."""
        pivots = PivotColumn.of(routes)

        def commit(shards: NDArray[np.int32]) -> BulkAnswer:
            return self.store.commit_texts(columns, shards=shards, routes=list(routes), request=request)

        return self._put_many(columns.ids, pivots, commit)

    def put_intervals(self, load: IntervalLoad, pivots: PivotColumn, request: str | None) -> BulkAnswer:
        """The same of intervals."""

        def commit(shards: NDArray[np.int32]) -> BulkAnswer:
            return self.store.commit_intervals(load, shards=shards, routes=pivots, request=request)

        return self._put_many(load.ids, pivots, commit)

    def _put_many(self, ids: Any, pivots: PivotColumn, commit: Callable[[NDArray[np.int32]], BulkAnswer]) -> BulkAnswer:
        with self._state:
            shards = self._place_many(ids, pivots)
            every = np.ones(len(shards), np.bool_)
            try:
                answer = commit(shards)
            except BaseException:
                self._take_back(pivots, shards, every)
                raise
            if answer.repeated:
                self._take_back(pivots, shards, every)
                serial = self._serial
            else:
                serial = self._pass_on(lambda effects: self._follow_many(pivots, shards, answer, effects))
        self._leases.wait_until_known(serial)
        return answer

    def _follow_many(
        self, pivots: PivotColumn, shards: NDArray[np.int32], answer: BulkAnswer, effects: Effects
    ) -> None:
        """Counts what came and what went."""
        kept = np.ones(len(shards), np.bool_)
        if answer.kept is not None:
            kept[:] = False
            kept[answer.kept] = True
            self._take_back(pivots, shards, ~kept)
        for shard, route, count in _counted(pivots, shards, kept):
            effects.added[shard, route] += count
        for number, shard, code in zip(*(column.tolist() for column in _columns(answer)), strict=True):
            route = self.store.route(code)
            self.placement.remove(route, shard)
            effects.removed[shard, route] += 1
            effects.gone[shard].append(number)
        effects.in_bulk.update(np.unique(shards[kept]).tolist(), effects.gone)

    def _place_many(self, ids: Any, pivots: PivotColumn) -> NDArray[np.int32]:
        there = self.store.shards_of(ids)
        if not there and not len(self._recent):
            return self.placement.place_many(pivots, ids)
        listed = ids.tolist() if isinstance(ids, np.ndarray) else ids
        if len(self._recent):
            recent = ((identity, self._recent.find(identity)) for identity in listed if identity not in there)
            there.update((identity, shard) for identity, shard in recent if shard is not None)
        known = np.array([there.get(identity, -1) for identity in listed], np.int32)
        for shard, route, count in _counted(pivots, known, known >= 0):
            self.placement.put(route, shard, count)
        new = np.flatnonzero(known < 0)
        if len(new):
            fresh = PivotColumn(pivots.code[new], pivots.routes)
            known[new] = self.placement.place_many(fresh, [listed[place] for place in new.tolist()])
        return known

    def _take_back(self, pivots: PivotColumn, shards: NDArray[np.int32], which: NDArray[np.bool_]) -> None:
        for shard, route, count in _counted(pivots, shards, which):
            self.placement.remove(route, shard, count)

    # ------------------------------------------------------------------------------------------------------------ telling

    def _send(self, effects: Effects) -> int:
        """On its way to shards and coordinators; the number of the note, which coordinators have confirmed or missed."""
        version = self.store.version
        for shard in effects.touched:
            self._needed[shard] = version
            if shard in effects.in_bulk:
                self._outlets.catch_up(shard, self.lineage, version)
            else:
                changes = self._changes(shard, version, effects)
                self._outlets.push(shard, ShardPush(self.lineage, changes))
            self._pushed[shard] = version
        fresh = dict(self.store.subscribers_after(self._last_subscriber))
        self._last_subscriber = max(fresh, default=self._last_subscriber)
        if not (effects.touched or effects.rules or fresh):
            return self._serial
        return self.tell(
            News(
                version,
                effects.touched,
                [(shard, route, count) for (shard, route), count in effects.added.items()],
                [(shard, route, count) for (shard, route), count in effects.removed.items()],
                fresh,
                effects.rules,
                self.moving,
            )
        )

    def tell(self, news: News) -> int:
        """Tells every coordinator, and notes who has confirmed. One that attaches meanwhile gets all that was told, routes too."""
        with self._state:
            self._serial += 1
            for shard, route, count in news.added:
                self._routes[shard, route] += count
            for shard, route, count in news.removed:
                self._routes[shard, route] -= count
                if not self._routes[shard, route]:
                    del self._routes[shard, route]
            note = Note(self.store.epoch, self.lineage, self._serial, news)
            attached = self._leases.attached()
        for coordinator, confirmed in self._outlets.tell(note, attached).items():
            if confirmed:
                self._leases.confirm(coordinator, attached[coordinator], note.serial)
            else:
                self._leases.miss(coordinator, note.serial)
        return note.serial

    def _changes(self, shard: int, version: int, effects: Effects) -> ShardChanges:
        came = effects.came.get(shard, [])
        removed = np.array(effects.gone.get(shard, ()), np.int64)
        numbers = np.array([number for number, _ in came], np.int64)
        both = np.intersect1d(removed, numbers) if len(removed) and len(numbers) else NO_NUMBERS
        if len(both):  # came and went within the group
            came = [(number, change) for number, change in came if number not in both]
            numbers = np.array([number for number, _ in came], np.int64)
        added = ShardColumns(
            version,
            numbers,
            ids_of([change.id for _, change in came]),
            np.array([self.store.subscriber_code(change.subscriber) for _, change in came], np.int32),
            np.zeros(len(came), np.int32),
            [change.hint for _, change in came],
            [change.text for _, change in came],
        )
        return ShardChanges(int(self._pushed[shard]), version, removed, added)

    # ------------------------------------------------------------------------------------------------------------ moves

    def moved(self, routes: Iterable[RouteCount], source: int, target: int) -> None:
        """Subscriptions of these routes have gone from one shard to another: the next change may be about them."""
        for _, route, count in routes:
            self.placement.remove(route, source, count)
            self.placement.put(route, target, count)

    def need(self, shards: Iterable[int], version: int) -> None:
        """From now on these shards must have this version; what they get next is pushed after it."""
        with self._state:
            for shard in shards:
                self._needed[shard] = self._pushed[shard] = version

    def have(self, shards: Iterable[int], version: int) -> None:
        """These shards are known to have this version, and need not answer with an older one."""
        with self._state:
            for shard in shards:
                self._needed[shard] = max(version, self._needed[shard])


def _counted(pivots: PivotColumn, shards: NDArray[np.int32], which: NDArray[np.bool_]) -> list[RouteCount]:
    """How many of the chosen subscriptions have which shard and route."""
    if not which.any():
        return []
    keys = shards[which].astype(np.int64) << 32 | pivots.code[which]
    values, counts = np.unique(keys, return_counts=True)
    return [
        (key >> 32, pivots.routes[key & 0xFFFF_FFFF], count)
        for key, count in zip(values.tolist(), counts.tolist(), strict=True)
    ]


def _columns(answer: BulkAnswer) -> tuple[NDArray[Any], ...]:
    return answer.gone.numbers, answer.gone.shards, answer.gone.routes
