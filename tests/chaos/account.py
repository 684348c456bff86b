"""A record of everything a server has acknowledged and answered, from which follows what it must have answered and what it may have.

Every change is recorded with the times at which it began and was acknowledged. Between the two, and for ever if it was never acknowledged,
both the state before it and the state after it are possible. A publication must match what matches in every state that was possible while
it ran, may match what matches in one of them, and nothing else; each subscription once.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import ray_pubsub

__all__ = ["TEMPLATES", "Account", "Change", "Publication", "event"]

VALUES = 24
TEMPLATES: tuple[str, ...] = (
    *(f"a = {value}" for value in range(VALUES)),
    *(f"a >= {value} and a < {value + 6}" for value in range(VALUES)),
    *(f"b = 'x{value % 4}' and a <= {value}" for value in range(VALUES)),
    *(f"not (a = {value}) and b like '%{value % 4}'" for value in range(8)),
    "c is null",
)
"""Expressions of which the account knows what they match."""


def event(number: int) -> dict[str, Any]:
    """The event of this number; a few dozen different ones, and the number."""
    return {"a": number % VALUES, "b": f"x{number // VALUES % 4}", "n": number}


@dataclass(slots=True)
class Change:
    """A subscription has this expression, or none, from some time between `began` and `ended`."""

    template: int | None
    began: float
    ended: float = inf
    """inf: it was never acknowledged, and may or may not have been done."""


@dataclass(slots=True)
class Publication:
    began: float
    ended: float
    numbers: Sequence[int]
    matches: Sequence[Sequence[Any]]
    delivered: bool = True


@dataclass(slots=True)
class Account:
    """Safe to use from several threads."""

    changes: defaultdict[Any, list[Change]] = field(default_factory=lambda: defaultdict(list))
    publications: list[Publication] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    """Numbers of events whose publication was not acknowledged."""
    polled: defaultdict[tuple[Any, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    """Subscription and event number → the sequence numbers it was delivered under."""
    acknowledged: dict[int, float] = field(default_factory=dict)
    """Sequence numbers, and when."""
    settled_pairs: set[tuple[Any, int]] = field(default_factory=set)
    """Subscription and event number of what was handed out and then acknowledged, with or without success."""
    problems: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _matching: dict[int, frozenset[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        index = ray_pubsub.MatchIndex()
        for place, text in enumerate(TEMPLATES):
            index.add(place, text)
        numbers = range(VALUES * 4)
        for number, found in zip(numbers, index.match_many([event(number) for number in numbers]), strict=True):
            self._matching[number] = frozenset(found)

    def matching(self, number: int) -> frozenset[int]:
        """The templates that match the event of this number."""
        return self._matching[number % (VALUES * 4)]

    def begin(self, identity: Any, template: int | None) -> Change:
        change = Change(template, time.monotonic())
        with self._lock:
            self.changes[identity].append(change)
        return change

    def published(self, publication: Publication) -> None:
        with self._lock:
            self.publications.append(publication)

    def lost(self, numbers: Iterable[int]) -> None:
        with self._lock:
            self.failed += numbers

    def erred(self, what: str, error: BaseException) -> None:
        with self._lock:
            self.errors[f"{what}: {type(error).__name__}"] += 1

    def handed_out(self, asked: float, deliveries: Sequence[Any]) -> None:
        """What a poll that began at `asked` has given."""
        with self._lock:
            for each in deliveries:
                done = self.acknowledged.get(each.sequence, inf)
                if done < asked:
                    self.problems.append(f"delivery {each.sequence} came again after it was acknowledged")
                self.polled[each.subscription_id, each.event["n"]].add(each.sequence)

    def acknowledging(self, deliveries: Sequence[Any]) -> None:
        """An acknowledgement is on its way: from now on these need not come again, whether or not an answer comes."""
        with self._lock:
            self.settled_pairs.update((each.subscription_id, each.event["n"]) for each in deliveries)

    def acked(self, deliveries: Sequence[Any], stale: Iterable[int]) -> None:
        """These were acknowledged, but for those at the stale positions."""
        gone, now = set(stale), time.monotonic()
        with self._lock:
            for place, each in enumerate(deliveries):
                # Stale: it comes again; or this was the second try, after the answer to the first was lost, and it does not.
                if place not in gone:
                    self.acknowledged[each.sequence] = now

    def now(self) -> Mapping[Any, int]:
        """The subscriptions that there must be, when nothing is uncertain."""
        return {
            identity: changes[-1].template
            for identity, changes in self.changes.items()
            if changes[-1].template is not None
        }

    def uncertain(self) -> list[Any]:
        """Subscriptions whose last change was not acknowledged."""
        return [identity for identity, changes in self.changes.items() if changes[-1].ended == inf]

    def check(self, waiting: Iterable[tuple[Any, int]] = ()) -> list[str]:
        """Everything that is wrong. `waiting`: deliveries that need not have been acknowledged."""
        problems = list(self.problems)
        excused = set(waiting)
        for publication in self.publications:
            possible = {
                identity: _possible(changes, publication.began, publication.ended)
                for identity, changes in self.changes.items()
            }
            for number, found in zip(publication.numbers, publication.matches, strict=True):
                problems += self._check_event(publication, number, found, possible, excused)
        for (identity, number), sequences in self.polled.items():
            if len(sequences) > 1:
                problems.append(f"event {number} was delivered {len(sequences)} times to {identity!r}: {sequences}")
        return problems

    def _check_event(
        self,
        publication: Publication,
        number: int,
        found: Sequence[Any],
        possible: Mapping[Any, list[int | None]],
        excused: set[tuple[Any, int]],
    ) -> list[str]:
        problems = []
        matching, counted = self.matching(number), Counter(found)
        for identity, templates in possible.items():
            hits = sum(template in matching for template in templates)
            times = counted.pop(identity, 0)
            must, may = hits == len(templates), hits > 0
            if times > 1:
                problems.append(f"event {number} matched {identity!r} {times} times")
            if must and not times:
                problems.append(
                    f"event {number}, published {publication.began:.3f} to {publication.ended:.3f}, misses {identity!r}: "
                    f"{self.changes[identity][-4:]}"
                )
            if times and not may:
                problems.append(
                    f"event {number}, published {publication.began:.3f} to {publication.ended:.3f}, has {identity!r} wrongly: "
                    f"{self.changes[identity][-4:]}"
                )
            pair = (identity, number)
            if must and publication.delivered and pair not in self.settled_pairs and pair not in excused:
                problems.append(f"event {number} was published and never delivered to {identity!r}")
        problems += [f"event {number} matched {identity!r}, which nobody subscribed" for identity in counted]
        return problems


def _possible(changes: Sequence[Change], began: float, ended: float) -> list[int | None]:
    """What a subscription may have been at some time in between."""
    states: list[int | None] = []
    for place, change in enumerate(changes):
        if change.began > ended:
            break
        # It is over when a later change that was acknowledged is known to have been done.
        if all(later.ended > began for later in changes[place + 1 :]):
            states.append(change.template)
    first = changes[0]
    if first.ended > began:  # before it there was nothing
        states.append(None)
    return states or [None]
