"""The largest legal inputs, one at a time: how long an `add` takes, and for how long it keeps others from changing or reading."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import ray_pubsub
from benchmarks.rules.report import Report
from benchmarks.rules.sizes import Sizes

__all__ = ["LARGEST", "MOST_LOCKED", "MOST_SECONDS", "TimedLock", "run", "timed"]

MOST_SECONDS, MOST_LOCKED = 0.5, 0.05
EVENTS = 20


def joined(word: str, parts: list[str]) -> str:
    return "(" + f" {word} ".join(parts) + ")"


LARGEST: dict[str, str] = {
    "alternatives of three tests": joined(
        "or", [f"(a{number % 50} = {number} and b < {number} and c = 'v{number}')" for number in range(3000)]
    ),
    "a few hundred of them": joined(
        "or", [f"(a{number} = {number} and b{number} < {number} and c{number} = 'v{number}')" for number in range(300)]
    ),
    "a set of numbers": "x in " + joined(",", list(map(str, range(99_000)))),
    "a set of strings": "x in " + joined(",", [f"'s{number}'" for number in range(75_000)]),
    "all but some strings": "x not in " + joined(",", [f"'s{number}'" for number in range(75_000)]),
    "patterns that all must match": joined("and", [f"x like '%{number}%'" for number in range(9000)]),
    "patterns of which one must match": joined("or", [f"x like '%abc{number}%'" for number in range(9000)]),
    "regular expressions": joined("or", [f"x regexp 'a{number}(b|c)+[0-9]{{2,3}}$'" for number in range(3000)]),
    "ranges of strings": joined("or", [f"x between 'a{number:05}' and 'a{number:05}z'" for number in range(9000)]),
    "disjunctions": joined(
        "and", [joined("or", [f"a{place} = {number}" for place in range(9)]) for number in range(1000)]
    ),
    "disjunctions of conjunctions of disjunctions": joined(
        "and",
        [
            joined("or", [f"(a{place} = 1 and (b{place} = 2 or c{place} = {number}))" for place in range(9)])
            for number in range(300)
        ],
    ),
    "unequal to many": joined("and", [f"x != {number}" for number in range(9000)]),
    "as deep as is allowed": "(x = 1 or " * 48 + "y = 2" + " and z = 3)" * 48,
}
"""Each within the default limits (ray_pubsub/settings.py), of a sort that is multiplied out, computed or refused in its own way."""


class TimedLock:
    """Stands for a lock, and knows the processor seconds for which a thread had it at a stretch."""

    def __init__(self, lock: Any) -> None:
        self._lock, self._depth, self._since = lock, 0, 0.0
        self.longest = 0.0

    @property
    def is_held(self) -> bool:
        return self._depth > 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1:
            self._since = time.thread_time()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.longest = max(self.longest, time.thread_time() - self._since)
        self._lock.release()


def run(report: Report, sizes: Sizes) -> None:
    del sizes  # what is legal does not depend on them
    slowest, longest = {}, {}
    for name, text in LARGEST.items():
        report.step(f"largest: {name}")
        slowest[name], longest[name] = added(name, text)
    rules = {name: prioritized(report, name, text) for name, text in LARGEST.items()}
    for what, seconds, most in (
        ("add one of the largest texts", slowest, MOST_SECONDS),
        ("the index is locked for", longest, MOST_LOCKED),
        ("prioritize by one of them", rules, MOST_SECONDS),
    ):
        worst = max(seconds, key=seconds.__getitem__)
        report.line(what, seconds[worst], "s", must=most, more=False, note=f"at most, of {len(seconds)}: {worst}")


def added(name: str, text: str) -> tuple[float, float]:
    """Seconds of an add, and of these with the index's lock. Answers are compared with the scan's."""
    index, scan = ray_pubsub.MatchIndex(merges="background"), ray_pubsub.MatchIndex("scan")
    index.add("first", "x = 1")
    lock = index._writing = TimedLock(index._writing)  # type: ignore[assignment]
    seconds = timed(lambda: index.add("large", text))
    scan.add_many(["first", "large"], ["x = 1", text])
    for event in events():
        assert sorted(index.match(event)) == sorted(scan.match(event)), f"{name}: {event} differs"
    return seconds, lock.longest


def prioritized(report: Report, name: str, text: str) -> float:
    report.step(f"largest, as a rule: {name}")
    rules, scan = ray_pubsub.PriorityRules(["low", "high"]), ray_pubsub.MatchIndex("scan")
    rules.add("first", "high", "first = 1")
    seconds = timed(lambda: rules.add("large", "high", text))
    scan.add("large", text)
    for event in events():
        assert rules.priority(event) == ("high" if scan.match(event) else "low"), f"{name}: {event} differs"
    return seconds


def timed(work: Callable[[], None]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def events() -> list[dict[str, Any]]:
    random_ = random.Random(5)
    found: list[dict[str, Any]] = []
    for _ in range(EVENTS):
        number = random_.randrange(400)
        event: dict[str, Any] = {f"a{place}": random_.choice([number, 1]) for place in range(60)}
        event |= {f"b{place}": random_.randrange(5) for place in range(60)} | {"b": random_.randrange(number + 1)}
        event |= {f"c{place}": random_.choice([number, f"v{number}"]) for place in range(60)} | {"c": f"v{number}"}
        event[f"a{number}"], event[f"b{number}"], event[f"c{number}"] = number, number - 1, f"v{number}"
        event["x"] = random_.choice([number, f"s{number}", f"a{number:05}y", f"zabc{number}b12", 99_500, "other", None])
        found.append(event)
    return found
