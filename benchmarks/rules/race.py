"""Measures auto, every engine, a compiled scan and compiled counting on the same rules and events, and compares all results.

Batches are columns, which are read before; a single event is a dictionary, and its ids are a list. Scan and counting are measured as a
program that gets the same and gives the same (plain.py), and as bare kernels that are given numbers and give numbers. All systems have
seen events before they are measured, so that what they build when it pays is built.

Each system is measured in turns with auto, and its time is scaled by auto's: what else the machine does then harms both. An engine that
is HOPELESS times as slow as auto at first sight is not measured further, nor is one that is SLOW times as slow after it has seen events;
with many rules, one that was at a tenth of the rules is not built. If auto's blocks are all of one engine, they are what that engine alone
has, and it is not measured twice.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import ray_pubsub
from benchmarks.rules.plain import Plain
from benchmarks.rules.references import Counting, RuleArrays, Scan, rule_arrays
from ray_pubsub.engines.registry import ENGINES, build_of
from ray_pubsub.engines.selection.cost_formulas import MOST_DENSE_COLUMNS
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.workloads import GeneratedRules

__all__ = ["Pair", "Raced", "race"]

SINGLE, COMPARED, FEW = 32, 24, 6
"""Events that are matched one by one; events whose results are compared; events for a first sight."""
SCANNED = 64
"""Events of a batch for the references, which take each event alone."""
SEEN = 0.15
"""Seconds of single events, and of batches, that every system has seen before it is measured, unless one takes longer."""
HEATS = 50_000
"""With more rules, a tenth of them decides which engines are built."""
SLOW, HOPELESS = 4.0, 60.0
ROUNDS = (3, 40)
FAVOURED = ("dense", "pivot")

Pair: TypeAlias = NDArray[np.float64]
"""Of a batch, and of one event after the other."""


class Work(NamedTuple):
    do: Callable[[], object]
    events: int


Works: TypeAlias = tuple[Work, Work]


@dataclass(slots=True)
class Raced:
    """Microseconds an event, and how they compare."""

    rules: int
    blocks: str
    """Which engines auto chose."""
    auto: Pair
    best: tuple[str, str]
    regret: Pair
    public: Pair
    """The regret against the engines that a user can choose, dense and pivot not being among them."""
    scan: Pair
    """The time of a program with a scan divided by auto's."""
    counting: Pair
    bare: Pair
    """The time of the faster of both kernels alone."""
    build: float
    bytes: float
    """A rule's, ids included."""
    followed: Pair | None = None
    """The regret after the index has followed the stream, if it changed a block."""
    followed_blocks: str = ""
    times: dict[str, str] = field(default_factory=dict)
    """Of every engine that was measured, for a look at single settings."""

    @property
    def settled(self) -> Pair:
        return self.regret if self.followed is None else self.followed


def race(make: Callable[[int], GeneratedRules], count: int, seconds: float) -> Raced:
    rules = make(count)
    names = [name for name in ENGINES if name not in ("auto", "scan")]
    if len(used := np.unique(rules.attribute)) > MOST_DENSE_COLUMNS:
        names.remove("dense")
    assert len(used), "rules without a test"
    if count > HEATS:
        names = heat(make(count // 10), names)
    events = Events(rules)
    start = time.thread_time()
    auto = events.built("auto")
    build = time.thread_time() - start
    mine = events.works(auto)
    kinds = sorted({block.engine for block in auto.stats().blocks})
    events.compare_with(auto)
    beside: dict[str, Pair] = {}
    for name, works in events.references.items():
        first, times = in_turns(mine, works, seconds)
        beside[name] = times / first
    bare = np.minimum(beside["bare scan"], beside["bare counting"])
    regrets: dict[str, Pair] = {"auto": np.ones(2)}
    written = {"auto": f"{first[0]:.1f}/{first[1]:.1f}"}
    fastest: tuple[ray_pubsub.MatchIndex, ray_pubsub.MatchIndex] = (auto, auto)
    for name in names:
        if kinds == [name]:
            regrets[name] = np.ones(2)
            continue
        other = events.built(name)
        seen, glimpse = in_turns(mine, events.glimpse(other), 0.0)
        if (glimpse > HOPELESS * seen).all():  # seconds for an event, where every clause has a set
            continue
        works = events.works(other, compare=False)
        if name not in FAVOURED:
            seen, glimpse = in_turns(mine, events.glimpse(other), 0.0)
            if (glimpse > SLOW * seen).all():
                continue
        events.check(other)
        seen, times = in_turns(mine, works, seconds)
        regrets[name] = seen / times
        written[name] = "/".join(f"{first[way] / regrets[name][way]:.1f}" for way in (0, 1))
        fastest = tuple(  # type: ignore[assignment]
            other if regrets[name][way] >= max(each[way] for each in regrets.values()) else fastest[way]
            for way in (0, 1)
        )
    best = [max(regrets, key=lambda name, way=way: regrets[name][way]) for way in (0, 1)]  # type: ignore[misc]
    offered = [regrets[name] for name in regrets if name not in FAVOURED]
    public = np.maximum.reduce(offered)
    raced = Raced(
        count, "+".join(kinds) or "tail", first, (best[0], best[1]), np.array([regrets[best[way]][way] for way in (0, 1)]), public,
        beside["scan"], beside["counting"], bare, build, auto.nbytes / count, times=written,
    )  # fmt: skip
    if events.follow(auto):
        before = events.built(kinds[0]) if len(kinds) == 1 else auto
        against = [before if index is auto else index for index in fastest]
        ratios = [np.divide(*in_turns(mine, events.works(index, compare=False), seconds)) for index in against]
        raced.followed = np.array([ratios[way][way] for way in (0, 1)])
        raced.followed_blocks = "+".join(sorted({block.engine for block in auto.stats().blocks}))
    return raced


class Events:
    """The events of a setting, and what all systems must answer."""

    def __init__(self, rules: GeneratedRules) -> None:
        self.rules = rules
        self._table = rules.predicates() if rules.plain else None
        dicts = rules.event_dicts()
        self.batch = from_dicts(dicts)
        self.singles = dicts[:SINGLE]
        self.few = from_dicts(dicts[:FEW])
        self._scanned = from_dicts(dicts[:SCANNED])
        rows = [np.ascontiguousarray(row) for row in rules.events]
        arrays: RuleArrays = rule_arrays(rules)
        scan, counting = Scan(arrays), Counting(arrays, rules.events.shape[1])
        self.expected = [self._numbers(scan.match(row)) for row in rows[:COMPARED]]
        assert [self._numbers(counting.match(row)) for row in rows[:COMPARED]] == self.expected
        self.references: dict[str, Works] = {}
        self._systems: dict[str, Scan | Counting] = {"scan": scan, "counting": counting}
        self._rows = rows

    def compare_with(self, index: ray_pubsub.MatchIndex) -> None:
        """Makes the works of the references, which read what the index reads."""
        attributes, coded = index._books.engine.view().attributes, np.array(self._rows[:SCANNED])
        for name, system in self._systems.items():
            work = Work(lambda system=system: [system.match(row) for row in self._rows[:SINGLE]], SINGLE)  # type: ignore[misc]
            self.references[f"bare {name}"] = (work, work)
            plain = Plain(system, self.rules, attributes)
            offsets, found = plain.batch(self._scanned, coded)
            for place in range(min(COMPARED, len(coded))):
                assert sorted(found[offsets[place] : offsets[place + 1]].tolist()) == self.expected[place], name
                assert place >= FEW or sorted(plain.one(self.singles[place])) == self.expected[place], name
            self.references[name] = (
                Work(lambda plain=plain: plain.batch(self._scanned, coded), len(coded)),  # type: ignore[misc]
                Work(lambda plain=plain: [plain.one(event) for event in self.singles], len(self.singles)),  # type: ignore[misc]
            )

    def _numbers(self, clauses: NDArray[Any]) -> list[int]:
        owner = self.rules.owner
        return np.unique(clauses if owner is None else owner[clauses]).tolist()

    def built(self, engine: str) -> ray_pubsub.MatchIndex:
        index = ray_pubsub.MatchIndex()
        live = SegmentedIndex(index.limits, build_of(engine, {}))
        live.following.look_at = sys.maxsize
        index._books = index._books._replace(engine=live)
        if self._table is not None:
            index.add_predicates(self._table)
        else:
            self.rules.add_to(index)
        with live.writing:  # else it would depend on the number of rounds when a tail becomes a block
            if live.snapshot.tail.clauses:
                live.seal()
            live.maintenance.run()
        return index

    def works(self, index: ray_pubsub.MatchIndex, compare: bool = True) -> Works:
        if compare:
            self.check(index)
        works = self._works(index, self.batch, self.singles)
        for work in works:
            start = time.thread_time()
            while time.thread_time() - start < SEEN:
                work.do()
        return works

    def glimpse(self, index: ray_pubsub.MatchIndex) -> Works:
        return self._works(index, self.few, self.singles[:FEW])

    def check(self, index: ray_pubsub.MatchIndex) -> None:
        found = index.match_many(self.batch)
        assert [sorted(found[place]) for place in range(COMPARED)] == self.expected, "a batch differs"
        for place in range(FEW):
            assert sorted(index.match(self.singles[place])) == self.expected[place], "an event differs"

    def follow(self, index: ray_pubsub.MatchIndex) -> bool:
        """Lets an index look at the stream. Returns whether it has built a block again."""
        following = index._books.engine.following  # type: ignore[attr-defined]
        following.look_at = 0
        for _ in range(-(-following.policy.events_until_a_look(self.rules.count) // self.batch.size)):
            index.match_many(self.batch)
        index.wait_for_merges()
        following.look_at = 0
        index.match_many(self.batch)
        index.wait_for_merges()
        following.look_at = sys.maxsize
        self.check(index)
        return following.rebuilt > 0

    @staticmethod
    def _works(index: ray_pubsub.MatchIndex, batch: EventBatch, singles: list[dict[str, Any]]) -> Works:
        return (
            Work(lambda: index.match_many(batch), batch.size),
            Work(lambda: [index.match(one) for one in singles], len(singles)),
        )


def heat(rules: GeneratedRules, names: list[str]) -> list[str]:
    """Returns the engines that are not far behind in one of both ways."""
    events = Events(rules)
    times = {}
    for name in names:
        works = events.works(events.built(name))
        times[name] = in_turns(works, works, 0.05)[0]
    least = np.min(list(times.values()), axis=0)
    return [name for name in names if name in FAVOURED or (times[name] < SLOW * least).any()]


def in_turns(one: Works, other: Works, seconds: float) -> tuple[Pair, Pair]:
    """Returns the microseconds an event of two systems: the fastest of the rounds in which they take turns."""
    best, start = np.full((2, 2), np.inf), time.thread_time()
    for number in range(ROUNDS[1]):
        for place, works in enumerate((one, other)):
            for way, work in enumerate(works):
                if way and work is works[0]:
                    best[place, way] = best[place, 0]
                    continue
                if (
                    way
                ):  # what ran before has left other things in the caches, which a stream of single events does not find
                    work.do()
                begin = time.thread_time()
                work.do()
                best[place, way] = min(best[place, way], (time.thread_time() - begin) * 1e6 / work.events)
        if number + 1 >= ROUNDS[0] and time.thread_time() - start > seconds:
            break
    return best[0], best[1]
