"""The shard's process: an index of some of the subscriptions, which matches batches.

Its data is derived from the registry. It starts empty, loads its subscriptions in columns, and then receives the changes. Each batch says
which version it needs. A shard that is behind waits for changes that are on their way, or requests them, and never answers from an older
state. It is a plain class; `transport/remote.py` makes it an actor.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

from actors.registry.columns import ShardChanges, ShardColumns
from actors.server_settings import ServerSettings
from actors.shard.content import ShardContent
from actors.shard.level_lock import LevelLock
from actors.shard.match_ranking import Ranking, rank
from actors.telemetry.latencies import Latencies
from actors.telemetry.process_memory import process_bytes
from actors.telemetry.recent_rate import RecentRate
from actors.transport.matching import MatchRequest, ShardReply
from actors.transport.messages import NO_NUMBERS, ShardPush, ShardStart
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.errors import FencedError, UnavailableError
from ray_pubsub.model.single_event import SingleEvent
from ray_pubsub.sharding.few_matches import FEW_PLAIN, FewMatches
from ray_pubsub.sharding.merging import ShardMatches, packed_ids

__all__ = ["RegistryOfShard", "Shard"]

logger = logging.getLogger(__name__)

PUSH_COMES_WITHIN = 0.25
"""The seconds that a batch waits for a change that is probably on its way, before the shard requests it from the registry."""
PAUSE = 0.1
FEW_IDS = 16
"""Up to this number of ids are sent as they are; an Arrow column of a few strings takes longer to make, and to read."""
LOADING = -1
NOTHING: AbstractContextManager[None] = nullcontext()
OTHER_LINEAGE = "has the data of another registry than this batch"


class RegistryOfShard(Protocol):
    """The methods of the registry that a shard calls. Each may raise UnavailableError."""

    def start_shard(self, shard: int) -> ShardStart: ...

    def changes_for_shard(self, shard: int, epoch: int, lineage: str, since: int) -> ShardChanges | None: ...


class Shard:
    """Matches batches. Any number of threads may match; changes are applied one at a time."""

    def __init__(self, number: int, settings: ServerSettings, registry: RegistryOfShard) -> None:
        self.number = number
        self._settings = settings
        self._registry = registry
        self._content = ShardContent.empty(settings)
        self._provisional: set[int] = set()
        self._epoch, self._version, self._lineage = 0, LOADING, ""
        self._changing = threading.RLock()
        self._lock = threading.RLock()
        self._advanced = threading.Condition(self._lock)
        self._large = LevelLock()
        """Admits one large batch at a time, the most urgent first: two at once would evict each other's data from the processor's
        caches. A less urgent one gives way between parts of its work. Replies to other batches may be sent meanwhile."""
        self.latencies, self._rate = Latencies(), RecentRate()
        self._events = self._matches = self._batches = 0
        self._started, self._loaded_in = time.time(), 0.0
        self._fenced: FencedError | None = None
        # Loading is not done in the constructor itself: an actor whose constructor fails is never restarted.
        threading.Thread(target=self._load, name=f"shard-{number}-load", daemon=True).start()

    # ------------------------------------------------------------------------------------------------------------ matching

    def match(self, request: MatchRequest) -> ShardReply:
        """Returns the matches of a batch. Raises UnavailableError if the shard does not get the needed version in time."""
        started = time.perf_counter()
        if self._version < request.needed or self._lineage != request.lineage:
            self._catch_up(request.lineage, request.needed, request.timeout)
        batch = request.events.batch
        with self._lock:
            content, version = self._content, self._version
            if self._lineage != request.lineage:
                raise UnavailableError(f"shard {self.number}", OTHER_LINEAGE)
        columns = content.columns
        generation = columns.begin_reading()
        try:
            with NOTHING if request.events.small else self._large.held(request.level):
                found = content.index.match_distinct(batch)
                known = columns.resolve(found.ids, found.times)
        finally:
            columns.end_reading(generation)
        numbers = found.ids if request.numbers else None
        matches: ShardMatches
        if isinstance(batch, SingleEvent) and len(known.ids) <= FEW_PLAIN:  # places are then the numbers from 0
            listed = None if numbers is None else numbers.tolist()
            matches = FewMatches(known.ids.tolist(), known.subscribers.tolist(), listed)
        else:
            ids = known.ids if len(known.ids) <= FEW_IDS else packed_ids(known.ids)
            matches = ShardMatches(found.offsets, found.places, ids, known.subscribers, numbers)
        seconds = time.perf_counter() - started
        with self._lock:
            self._events += batch.size
            self._matches += len(matches)
            self._batches += 1
            self._rate.add(batch.size)
            self.latencies.add(seconds)
        return ShardReply(self._epoch, version, seconds, len(matches), matches)

    def explain(self, event: dict[str, Any], lineage: str, needed: int, timeout: float) -> IndexPlan:
        """Returns how this shard matches an event."""
        self._catch_up(lineage, needed, timeout)
        return self._content.index.explain(event)

    def _catch_up(self, lineage: str, needed: int, timeout: float) -> None:
        if self._has(lineage, needed):
            return
        deadline = time.monotonic() + timeout
        with self._advanced:
            wait = timeout if self._version == LOADING else min(PUSH_COMES_WITHIN, timeout)
            self._advanced.wait_for(lambda: self._has(lineage, needed), wait)
        while not self._has(lineage, needed):
            if self._fenced is not None:
                raise self._fenced
            if self._version == LOADING or time.monotonic() > deadline:
                reason = f"is loading: it has version {self._version}, and needs {needed}"
                raise UnavailableError(f"shard {self.number}", reason)
            self._pull()
            if self._lineage != lineage:
                # The registry was replaced since this batch began, or before. Only a new batch can be matched.
                raise UnavailableError(f"shard {self.number}", OTHER_LINEAGE)
            if not self._has(lineage, needed):
                time.sleep(PAUSE)

    def _has(self, lineage: str, needed: int) -> bool:
        return self._version >= needed and self._lineage == lineage

    # ------------------------------------------------------------------------------------------------------------ changes

    def apply(self, push: ShardPush) -> int:
        """Applies changes that the registry has pushed. Returns the shard's version afterwards."""
        changes = push.changes
        with self._changing:
            if self._version == LOADING:
                return LOADING  # the state being loaded contains this change, or the shard requests it later
            if push.lineage != self._lineage or changes.since > self._version:
                self._pull()
            elif changes.version > self._version:
                self._change(changes)
            return self._version

    def catch_up(self, lineage: str, version: int) -> int:
        """Requests changes that were not pushed from the registry, up to a version. Returns the shard's version afterwards."""
        with self._changing:
            if self._version == LOADING:
                raise UnavailableError(f"shard {self.number}", "is loading")
            if not self._has(lineage, version):
                self._pull()
            return self._version

    def take_over(self, columns: ShardColumns) -> None:
        """Adds subscriptions that are moving here from another shard. They are matched from now on, but belong to this shard only when a
        change says so; if that does not happen, `let_go` removes them."""
        with self._changing:
            if self._version == LOADING:
                raise UnavailableError(f"shard {self.number}", "is loading")
            self._provisional.update(columns.all_numbers.tolist())
            self._content.change(NO_NUMBERS, columns)

    def let_go(self, lineage: str, version: int) -> int:
        """Removes subscriptions that were taken over and do not belong to this shard at this version. Returns their number."""
        with self._changing:
            self.catch_up(lineage, version)
            numbers = np.array(sorted(self._provisional), np.int64)
            self._provisional.clear()
            self._content.change(numbers, ShardColumns.empty(self._version))
            return len(numbers)

    def _change(self, changes: ShardChanges) -> None:
        self._content.change(changes.removed, changes.added)
        self._provisional.difference_update(changes.added.all_numbers.tolist())
        self._provisional.difference_update(changes.removed.tolist())
        self._advance(changes.version)

    def _pull(self) -> None:
        with self._changing:
            try:
                found = self._registry.changes_for_shard(self.number, self._epoch, self._lineage, self._version)
            except FencedError as error:
                # Another instance is this shard now, and this one must not answer any more.
                self._fenced = error
                logger.warning(
                    "fenced shard=%d epoch=%d version=%d: %s", self.number, self._epoch, self._version, error
                )
                raise
            if found is None:
                logger.warning(
                    "reload shard=%d epoch=%d version=%d lineage=%s: the registry has other data, or no longer knows what is missing",
                    self.number, self._epoch, self._version, self._lineage,
                )  # fmt: skip
                self._reload()
            elif found.version > self._version:
                self._change(found)

    def _reload(self) -> None:
        start = self._registry.start_shard(self.number)
        content = ShardContent.empty(self._settings, start.frequencies)
        content.change(NO_NUMBERS, start.content)
        with self._advanced:
            self._content, self._provisional = content, set()
            self._epoch, self._lineage, self._version = start.epoch, start.lineage, start.content.version
            self._advanced.notify_all()
        logger.info(
            "loaded shard=%d epoch=%d version=%d lineage=%s subscriptions=%d pid=%d",
            self.number, self._epoch, self._version, self._lineage, len(content.columns), os.getpid(),
        )  # fmt: skip

    def _load(self) -> None:
        """Takes an epoch and loads everything that the registry has for this shard. Retried until it succeeds."""
        started = time.perf_counter()
        while True:
            try:
                with self._changing:
                    self._reload()
                self._loaded_in = time.perf_counter() - started
                return
            except UnavailableError as error:
                logger.info("shard %d waits for the registry: %s", self.number, error)
            except Exception:  # any error is retried: a shard that gave up would never answer
                logger.exception("shard %d could not load", self.number)
            time.sleep(PAUSE)

    def _advance(self, version: int) -> None:
        with self._advanced:
            self._version = version
            self._advanced.notify_all()

    # ------------------------------------------------------------------------------------------------------------ looking in

    def health(self) -> dict[str, Any]:
        """Returns which instance this is and which version it has."""
        return {
            "pid": os.getpid(),
            "epoch": self._epoch,
            "version": self._version,
            "state": self._state(),
            "subscriptions": len(self._content.columns),
            "moving": len(self._provisional),
        }

    def stats(self) -> dict[str, Any]:
        """Returns the statistics of this shard."""
        with self._advanced:
            counted = {"events": self._events, "matches": self._matches, "batches": self._batches}
            latencies, rate = self.latencies.state(), self._rate.per_second()
        content = self._content
        index = content.index.stats()
        return {
            **self.health(),
            **counted,
            "events_per_second": rate,
            "clauses": index.clauses,
            "index": index,
            "index_bytes": index.bytes,
            "cache_hit_rate": (index.vectors.hit_rate or 0.0) if index.vectors is not None else 0.0,
            "cache_bytes": index.vectors.bytes if index.vectors is not None else 0,
            "catalogue_bytes": content.columns.nbytes,
            "memory_bytes": process_bytes(),
            "uptime": time.time() - self._started,
            "loaded_in": self._loaded_in,
            "latencies": latencies,
        }

    def _state(self) -> str:
        if self._fenced is not None:
            return "replaced"
        return "loading" if self._version == LOADING else "serving"

    def ranking(self, most: int) -> tuple[str, Ranking]:
        """Returns the lineage for which the subscribers' codes are valid, and the subscriptions that match most and some that never
        matched."""
        return self._lineage, rank(self._content.columns.counts(), most)

    def wait_for_merges(self) -> None:
        """Returns when the background thread has nothing left to merge."""
        self._content.index.wait_for_merges()
