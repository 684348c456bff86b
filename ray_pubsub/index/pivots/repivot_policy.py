"""When a block chooses its pivots again: a decision, not an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ray_pubsub.engines.contract import PivotCost

__all__ = ["RepivotPolicy", "Verdict"]


class Verdict(NamedTuple):
    rebuild: bool
    regret: float
    """Clauses that events met in vain so far, to be given to the next judgement of the same block."""


@dataclass(frozen=True, slots=True)
class RepivotPolicy:
    """A block is rebuilt once its pivots have cost as much as rebuilding it does. So a stream that turns again and again costs at most
    twice what it would cost to know its future (renting skis or buying them). Costs are in clauses that an event meets."""

    look_events: int = 4096
    """A look after this many events: of single ones, a sixteenth is counted."""
    look_clauses: int = 64
    """With many clauses one look per event for every this many: a look takes milliseconds."""
    fewest_clauses: int = 1024
    """Smaller blocks are merged soon."""
    margin: float = 1.5
    """Clauses met now for each that would be met: less is within what the estimate is wrong by."""
    rebuild_cost: float = 400.0
    """Clauses an event meets in the time in which one is rebuilt: about a microsecond against two or three nanoseconds, measured once, on a
    busy machine, with 100,000 clauses of two tests."""
    more_events: float = 4.0
    """A block that was found right is looked at again when this many times as many events are known, or the stream has turned."""

    def events_until_a_look(self, clauses: int) -> int:
        return max(self.look_events, clauses // self.look_clauses)

    def judge(self, clauses: int, cost: PivotCost, regret: float, events: int) -> Verdict:
        """`regret`: of the last verdict; `events`: since then."""
        if cost.now <= self.margin * cost.again:
            return Verdict(False, 0.0)
        regret += (cost.now - cost.again) * events
        return Verdict(regret >= self.rebuild_cost * clauses, regret)
