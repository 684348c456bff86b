"""A shard: a match index of some of the subscriptions, derived from the registry, and answering batches.

A shard knows nothing that the registry does not. It starts empty, loads its subscriptions in columns, and then is told what changes. Each
batch says which version it needs; a shard that is behind waits for what is on its way, or asks for it, and never answers from an
older state. A plain class: `remote.py` makes it an actor.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from actors.latencies import Latencies
from actors.match_ranking import Ranking, rank
from actors.messages import NO_NUMBERS, ShardPush, ShardReply, ShardStart, empty_columns
from actors.numbered_columns import MatchCounts
from actors.packing import packed, packed_apart
from actors.process_memory import process_bytes
from actors.recent_rate import RecentRate
from actors.registry_columns import ShardChanges, ShardColumns
from actors.server_settings import ServerSettings
from actors.shard_content import ShardContent, all_numbers
from ray_pubsub.engines.plan import IndexPlan
from ray_pubsub.errors import FencedError, UnavailableError
from ray_pubsub.model.events import read_events
from ray_pubsub.sharding.merging import ShardMatches, packed_ids

__all__ = ["RegistryOfShard", "Shard"]

logger = logging.getLogger(__name__)

PUSH_COMES_WITHIN = 0.25
"""Seconds for which a batch waits for a change that is probably on its way, before the shard asks for it."""
PAUSE = 0.1
LOADING = -1
OTHER_LINEAGE = "has the data of another registry than this batch"
FEW_EVENTS = 64
FEW_MATCHES = 4096
"""So many travel with the reply."""


class RegistryOfShard(Protocol):
    """What a shard asks of the registry. Every method may raise UnavailableError."""

    def start_shard(self, shard: int) -> ShardStart: ...

    def changes_for_shard(self, shard: int, epoch: int, lineage: str, since: int) -> ShardChanges | None: ...


class Shard:
    """Any number of threads may match; changes are taken one at a time."""

    def __init__(self, number: int, settings: ServerSettings, registry: RegistryOfShard) -> None:
        self.number = number
        self._settings = settings
        self._registry = registry
        self._content = ShardContent.empty(settings)
        self._provisional: set[int] = set()
        self._epoch, self._version, self._lineage = 0, LOADING, ""
        self._changing = threading.RLock()
        self._advanced = threading.Condition()
        self._large = threading.Lock()
        """One large batch at a time: two at once would take each other's cache. Another one's matches may leave meanwhile."""
        self.latencies, self._rate = Latencies(), RecentRate()
        self._events = self._matches = self._batches = 0
        self._started, self._loaded_in = time.time(), 0.0
        self._fenced: FencedError | None = None
        # Not here in the constructor: an actor whose constructor fails is never started again.
        threading.Thread(target=self._load, name=f"shard-{number}-load", daemon=True).start()

    # ------------------------------------------------------------------------------------------------------------ matching

    def match(self, events: Any, lineage: str, needed: int, timeout: float, numbers: bool = False) -> ShardReply:
        """The matches of a batch, at the version `needed` or a later one. `numbers`: tell them too, so that a subscription that
        comes from two shards can be told."""
        started = time.perf_counter()
        self._catch_up(lineage, needed, timeout)
        batch = read_events(events)
        with self._advanced:
            content, version = self._content, self._version
            if self._lineage != lineage:
                raise UnavailableError(f"shard {self.number}", OTHER_LINEAGE)
        with content.columns.reading(), self._large if batch.size > FEW_EVENTS else nullcontext():
            found = content.index.match_distinct(batch)
            known = content.columns.resolve(found.ids, found.times)
        matches = ShardMatches(
            found.offsets, found.places, packed_ids(known.ids), known.subscribers, found.ids if numbers else None
        )
        seconds = time.perf_counter() - started
        with self._advanced:
            self._events += batch.size
            self._matches += len(matches)
            self._batches += 1
            self._rate.add(batch.size)
            self.latencies.add(seconds)
        return ShardReply(self._epoch, version, seconds, len(matches), matches)

    def match_few(self, events: Any, lineage: str, needed: int, timeout: float, numbers: bool = False) -> bytes:
        """The same for a few events, packed."""
        return packed(self.match(events, lineage, needed, timeout, numbers))

    def match_for_neighbour(
        self, events: Any, lineage: str, needed: int, timeout: float, numbers: bool = False
    ) -> Sequence[Any]:
        """The same for one on this node who has no need of Ray to carry it: the parts of a message."""
        reply = self.match(events, lineage, needed, timeout, numbers)
        return [packed(reply)] if reply.count <= FEW_MATCHES else packed_apart(reply)

    def match_apart(
        self, events: Any, lineage: str, needed: int, timeout: float, numbers: bool = False
    ) -> tuple[ShardReply, ShardMatches | None]:
        """The same; the matches, if they are many, apart from the reply, so that they can be passed on by reference."""
        reply = self.match(events, lineage, needed, timeout, numbers)
        if reply.count <= FEW_MATCHES:
            return reply, None
        assert isinstance(reply.matches, ShardMatches)
        return replace(reply, matches=None), reply.matches

    def explain(self, event: dict[str, Any], lineage: str, needed: int, timeout: float) -> IndexPlan:
        """How this shard matches an event."""
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
                # The registry is another one by now, or was another one when this batch began. Only a new batch helps.
                raise UnavailableError(f"shard {self.number}", OTHER_LINEAGE)
            if not self._has(lineage, needed):
                time.sleep(PAUSE)

    def _has(self, lineage: str, needed: int) -> bool:
        return self._version >= needed and self._lineage == lineage

    # ------------------------------------------------------------------------------------------------------------ changes

    def apply(self, push: ShardPush) -> int:
        """What the registry has changed; returns the version that the shard has then."""
        changes = push.changes
        with self._changing:
            if self._version == LOADING:
                return LOADING  # what it loads has this in it, or it will be asked for
            if push.lineage != self._lineage or changes.since > self._version:
                self._pull()
            elif changes.version > self._version:
                self._change(changes)
            return self._version

    def catch_up(self, lineage: str, version: int) -> int:
        """There is a version that was not sent along; returns the version that the shard has then."""
        with self._changing:
            if self._version == LOADING:
                raise UnavailableError(f"shard {self.number}", "is loading")
            if not self._has(lineage, version):
                self._pull()
            return self._version

    def take_over(self, columns: ShardColumns) -> None:
        """Subscriptions that may come from another shard: they are matched from now on, but they are this shard's only when a change
        says so. `let_go` takes them out again."""
        with self._changing:
            if self._version == LOADING:
                raise UnavailableError(f"shard {self.number}", "is loading")
            self._provisional.update(all_numbers(columns).tolist())
            self._content.change(NO_NUMBERS, columns)

    def let_go(self, lineage: str, version: int) -> int:
        """Takes out what was taken over and has not become this shard's by this version; returns how many that were."""
        with self._changing:
            if self._version == LOADING:
                raise UnavailableError(f"shard {self.number}", "is loading")
            if not self._has(lineage, version):
                self._pull()
            numbers = np.array(sorted(self._provisional), np.int64)
            self._provisional.clear()
            self._content.change(numbers, empty_columns(self._version))
            return len(numbers)

    def _change(self, changes: ShardChanges) -> None:
        self._content.change(changes.removed, changes.added)
        self._provisional.difference_update(all_numbers(changes.added).tolist())
        self._provisional.difference_update(changes.removed.tolist())
        self._advance(changes.version)

    def _pull(self) -> None:
        with self._changing:
            try:
                found = self._registry.changes_for_shard(self.number, self._epoch, self._lineage, self._version)
            except FencedError as error:
                # Another instance is this shard now. Nobody is to get an answer from this one any more.
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
        content = ShardContent.empty(self._settings)
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
        """The beginning: an epoch, and all that the registry has for this shard. Tried until it succeeds."""
        started = time.perf_counter()
        while True:
            try:
                with self._changing:
                    self._reload()
                self._loaded_in = time.perf_counter() - started
                return
            except UnavailableError as error:
                logger.info("shard %d waits for the registry: %s", self.number, error)
            except Exception:  # whatever it was: a shard that has given up answers nobody
                logger.exception("shard %d could not load", self.number)
            time.sleep(PAUSE)

    def _advance(self, version: int) -> None:
        with self._advanced:
            self._version = version
            self._advanced.notify_all()

    # ------------------------------------------------------------------------------------------------------------ looking in

    def health(self) -> dict[str, Any]:
        """Who this is, and how far it has come."""
        return {
            "pid": os.getpid(),
            "epoch": self._epoch,
            "version": self._version,
            "state": self._state(),
            "subscriptions": len(self._content.columns),
            "moving": len(self._provisional),
        }

    def stats(self) -> dict[str, Any]:
        """In numbers."""
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
        """The subscriptions that match most and some that never did; and the lineage by which their subscribers are numbered."""
        return self._lineage, rank(self._content.columns.counts(), most)

    def match_counts(self) -> MatchCounts:
        """How often each subscription of this shard matched since it came here."""
        return self._content.columns.counts()

    def wait_for_merges(self) -> None:
        """Returns when the background has nothing left to merge."""
        self._content.index.wait_for_merges()
