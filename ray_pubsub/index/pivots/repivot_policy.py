"""Decides when a block chooses its pivots, or its engine, again; it does not rebuild it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ray_pubsub.engines.contract import EngineCost, PivotCost

__all__ = ["RepivotPolicy", "Verdict"]


class Verdict(NamedTuple):
    rebuild: bool
    regret: float
    """The number of clauses that events met in vain so far, to be passed to the next judgement of the same block."""


@dataclass(frozen=True, slots=True)
class RepivotPolicy:
    """A block is rebuilt when its pivots have cost as much as rebuilding it does. So a stream that turns again and again costs at most
    twice what it would cost to know its future (the ski-rental problem). Costs are in clauses that an event meets."""

    look_events: int = 4096
    """The number of events between checks. Of single events, a sixteenth is counted."""
    look_clauses: int = 64
    """With many clauses, the number of events between checks is the clauses divided by this: a check takes milliseconds."""
    fewest_clauses: int = 1024
    """Smaller blocks are not rebuilt, because they are merged soon."""
    margin: float = 1.5
    """The least ratio of clauses met now to those that would be met; a smaller one is within the error of the estimate."""
    rebuild_cost: float = 400.0
    """The number of clauses that an event meets in the time in which one is rebuilt: about a microsecond against two or three
    nanoseconds, measured once, on a busy machine, with 100,000 clauses of two tests."""
    nanoseconds: float = 2.5
    """What it takes to meet a clause. With another engine a block takes up to five times as long to build, and costs more than clauses met
    in vain: so it counts as much as those."""
    more_events: float = 4.0
    """A block that was found right is checked again when this many times as many events are known, or the stream has turned;"""
    again_events: int = 65_536
    """or after this many events, because values may change while the attributes stay. A check takes 10 to 40 ms."""

    def events_until_a_look(self, clauses: int) -> int:
        return max(self.look_events, clauses // self.look_clauses)

    def judge(
        self, clauses: int, pivots: PivotCost | None, engine: EngineCost | None, regret: float, events: int
    ) -> Verdict:
        """Decides about a block. `regret` is that of the last verdict, and `events` the number of events since then."""
        waste = 0.0
        if pivots is not None and pivots.now > self.margin * pivots.again:
            waste = pivots.now - pivots.again
        if engine is not None and engine.now > self.margin * engine.again:
            waste = max(waste, (engine.now - engine.again) / self.nanoseconds)
        if not waste:
            return Verdict(False, 0.0)
        regret += waste * events
        return Verdict(regret >= self.rebuild_cost * clauses, regret)
