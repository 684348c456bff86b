"""Makes a change part of the server: it is assigned to a shard, committed to disk, announced, and acknowledged when every coordinator knows
it.

One thread makes all changes (`group_commit.py`), so they have one order. A shard need not have confirmed a change: coordinators know which
version each shard must have, and a shard that is behind answers no publication.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.registry.announcements import Announcer, Effects
from actors.registry.assignment import Assignment, counted
from actors.registry.changes import (
    Answer,
    BulkAnswer,
    Change,
    GoneColumns,
    PutRule,
    RemoveRule,
    SetSetting,
    Subscribe,
    Unsubscribe,
)
from actors.registry.columns import TextColumns
from actors.registry.group_commit import GroupCommitter
from actors.registry.interval_load import IntervalLoad
from actors.registry.leases import CoordinatorLeases
from actors.registry.store.store import RegistryStore
from actors.transport.messages import RuleChange
from ray_pubsub.errors import OverloadedError, StoreError, UnavailableError, UnknownSubscriptionError
from ray_pubsub.sharding.pivots import PivotColumn

__all__ = ["ChangeWriter"]

logger = logging.getLogger(__name__)

Work = Callable[[], Any]
"""A function that the thread that makes changes calls between two groups of changes."""


class ChangeWriter:
    """Makes changes. Any thread may call `submit`, `submit_if_owned`, `run` and `close`; the other methods are called within `run`."""

    def __init__(
        self, store: RegistryStore, assignment: Assignment, announcer: Announcer, leases: CoordinatorLeases
    ) -> None:
        self.store, self.assignment, self.announcer, self._leases = store, assignment, announcer, leases
        assignment.placement.recount(announcer.route_counts())
        self._placement_version = assignment.placement.version
        self._committer: GroupCommitter[Change | Work, Any] = GroupCommitter(self._perform, name="registry-changes")

    def submit(self, change: Change, timeout: float) -> Answer:
        """Makes a change, which is acknowledged when this method returns."""
        answer: Answer = self._wait(change, timeout)
        return answer

    def submit_if_owned(self, owner: str | None, change: Subscribe | Unsubscribe, timeout: float) -> bool:
        """Makes a change if `owner` is the subscriber of its id at that moment (None: if there is no such subscription), and returns
        whether it was. Nothing changes between the check and the change."""

        def make() -> Answer | None:
            try:
                found: str | None = self.store.get(change.id).subscriber
            except UnknownSubscriptionError:
                found = None
            return self.commit([change])[0] if found == owner else None

        return self.run(make, timeout) is not None

    def run(self, work: Work, timeout: float) -> Any:
        """Calls `work` in the thread that makes changes, and returns its result."""
        return self._wait(work, timeout)

    def close(self) -> None:
        """Makes the changes that were submitted, and refuses further ones."""
        self._committer.close()

    def commit(self, changes: Sequence[Change]) -> list[Answer]:
        """Makes these changes in one transaction."""
        with self.announcer.state:
            assigned = self.assignment.assign(changes)
            try:
                answers = self.store.commit(assigned)
            except BaseException:
                self.assignment.take_back(assigned)
                raise

            def collect(effects: Effects) -> None:
                for change, answer in zip(assigned, answers, strict=True):
                    self._collect(change, answer, effects)

            serial = self._announce(collect)
        self._leases.wait_until_known(serial)
        return answers

    def put_texts(self, columns: TextColumns, pivots: PivotColumn, key: str | None) -> BulkAnswer:
        """Adds many parsed subscriptions in one transaction."""
        return self._put_many(columns.ids, pivots, lambda shards: self.store.commit_texts(columns, shards, pivots, key))

    def put_intervals(self, load: IntervalLoad, pivots: PivotColumn, key: str | None) -> BulkAnswer:
        """Adds many subscriptions that are given as intervals, in one transaction."""
        return self._put_many(load.ids, pivots, lambda shards: self.store.commit_intervals(load, shards, pivots, key))

    def remove_many(self, ids: Sequence[str | int], key: str | None) -> BulkAnswer:
        """Removes many subscriptions in one transaction."""
        with self.announcer.state:
            shards = self.store.shards_of(ids)
            answer = self.store.commit_removal(ids, key)

            def collect(effects: Effects) -> None:
                self.assignment.recent.leave(shards)
                self._collect_gone(answer.gone, effects)

            serial = self.announcer.serial if answer.repeated else self._announce(collect)
        self._leases.wait_until_known(serial)
        return answer

    def _wait(self, item: Change | Work, timeout: float) -> Any:
        try:
            return self._committer.commit(item, timeout)
        except TimeoutError:
            raise UnavailableError("the registry", f"did not begin this change within {timeout:g} s") from None

    def _perform(self, group: list[Change | Work]) -> Sequence[Any]:
        """Returns the result of each item. Changes are made in one transaction, then work is done one by one."""
        changes = [item for item in group if not callable(item)]
        answers = iter(self.commit(changes) if changes else ())
        results = [_result(item) if callable(item) else next(answers) for item in group]
        if self.store.untrimmed and self._trim not in group:
            self._trim_later()
        return results

    def _trim_later(self) -> None:
        """Schedules trimming after this group, so that the callers of the group do not wait for it."""
        with suppress(StoreError, OverloadedError):  # the committer is closed or busy; a later group tries again
            self._committer.submit(self._trim)

    def _trim(self) -> None:
        try:
            self.assignment.recent.forget()
            if self.store.trim():
                self._trim_later()
        except (StoreError, UnavailableError) as error:
            logger.warning("could not give back the space of removed subscriptions: %s", error)

    def _put_many(self, ids: Any, pivots: PivotColumn, commit: Callable[[NDArray[np.int32]], BulkAnswer]) -> BulkAnswer:
        with self.announcer.state:
            shards = self.assignment.assign_many(ids, pivots)
            every = np.ones(len(shards), np.bool_)
            try:
                answer = commit(shards)
            except BaseException:
                self.assignment.take_back_many(pivots, shards, every)
                raise
            if answer.repeated:
                self.assignment.take_back_many(pivots, shards, every)
                serial = self.announcer.serial
            else:
                serial = self._announce(lambda effects: self._collect_many(pivots, shards, answer, effects))
        self._leases.wait_until_known(serial)
        return answer

    def _announce(self, collect: Callable[[Effects], None]) -> int:
        """Announces what was committed. It is on disk and cannot be repeated, so if this fails everything is announced."""
        try:
            effects = Effects()
            collect(effects)
            serial = self.announcer.announce(effects)
            self.store_placement()
            return serial
        except Exception:
            logger.exception("could not announce what was committed as version %d", self.store.version)
            try:
                serial = self.announcer.announce_everything()
            except Exception:
                # Otherwise a repetition of the change would be acknowledged although no coordinator knows it.
                self.store.doubt()
                raise
            self.assignment.placement.recount(self.announcer.route_counts())
            return serial

    def store_placement(self) -> None:
        """Stores the placement if it has changed. Changes were announced before, and stay valid whether or not this succeeds."""
        placement = self.assignment.placement
        if placement.version != self._placement_version:
            self.store.commit([SetSetting("placement", placement.state())])
            self._placement_version = placement.version

    def _collect(self, change: Change, answer: Answer, effects: Effects) -> None:
        """Records what a change has added and removed."""
        if answer.repeated:
            self.assignment.take_back([change])
            return
        if isinstance(change, Subscribe):
            effects.came[change.shard].append((answer.number, change))
            effects.added[change.shard, change.route] += 1
        gone = answer.gone
        if gone is not None:
            if isinstance(change, Unsubscribe):
                self.assignment.recent.leave({change.id: gone.shard})
            self.assignment.placement.remove(gone.route, gone.shard)
            effects.gone[gone.shard].append(gone.number)
            effects.removed[gone.shard, gone.route] += 1
        if isinstance(change, PutRule):
            effects.rules.append(RuleChange(change.id, change.level, change.expression))
        elif isinstance(change, RemoveRule) and answer.found:
            effects.rules.append(RuleChange(change.id))

    def _collect_many(
        self, pivots: PivotColumn, shards: NDArray[np.int32], answer: BulkAnswer, effects: Effects
    ) -> None:
        kept = np.ones(len(shards), np.bool_)
        if answer.kept is not None:
            kept[:] = False
            kept[answer.kept] = True
            self.assignment.take_back_many(pivots, shards, ~kept)
        for shard, route, count in counted(pivots, shards, kept):
            effects.added[shard, route] += count
        effects.in_bulk.update(np.unique(shards[kept]).tolist())
        self._collect_gone(answer.gone, effects)

    def _collect_gone(self, gone: GoneColumns, effects: Effects) -> None:
        columns = (gone.numbers, gone.shards, gone.routes)
        for number, shard, code in zip(*(column.tolist() for column in columns), strict=True):
            route = self.store.route(code)
            self.assignment.placement.remove(route, shard)
            effects.removed[shard, route] += 1
            effects.gone[shard].append(number)
        effects.in_bulk.update(effects.gone)


def _result(work: Work) -> Any:
    try:
        return work()
    except Exception as error:
        return error
