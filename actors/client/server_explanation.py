"""Explains how a server matches one event: which shards the event visits, and the plan of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.transport.calls import Deadline, answer, retried, sent
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.errors import EventError, counted
from ray_pubsub.index.explanation import Explanation, explain_event

if TYPE_CHECKING:
    from actors.client.server import Server

__all__ = ["ServerPlan", "explanation_of", "plan_of"]


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """The plans of all shards for one event. Print it to read it."""

    shards: dict[int, IndexPlan]
    """The plans of the visited shards, by shard number."""
    of: int
    """The number of shards of the server."""

    @property
    def matches(self) -> int:
        """The number of matches on all shards. A subscription that is being moved may count twice."""
        return sum(plan.matches for plan in self.shards.values())

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan as dictionaries, lists, strings and numbers."""
        return {"of": self.of, "shards": {str(shard): plan.to_dict() for shard, plan in self.shards.items()}}

    def __str__(self) -> str:
        if not self.shards:
            return (
                f"no shard of {self.of} has a subscription that could match: none of their pivots occurs in the event"
            )
        skipped = [str(shard) for shard in range(self.of) if shard not in self.shards]
        passed = f"; passes over {', '.join(skipped)}, whose pivots do not occur in the event" if skipped else ""
        found = counted(self.matches, "match", "matches")
        lines = [f"{found}; visits {len(self.shards)} of {counted(self.of, 'shard')}{passed}"]
        for shard, plan in self.shards.items():
            lines += [f"\nshard {shard}: {plan}"]
        return "\n".join(lines)


def plan_of(server: Server, event: Mapping[str, Any]) -> ServerPlan:
    """Returns how the server's shards match an event. Raises EventError."""
    given = _checked(event)

    def call(left: float) -> Any:
        return answer(sent(server.coordinator.explain, given), "the coordinator", left)

    return ServerPlan(retried(call, Deadline(server.settings.timeout)), len(server.shards))


def explanation_of(server: Server, event: Mapping[str, Any], id: str | int) -> Explanation:
    """Returns why a subscription matches an event or does not. Raises EventError and UnknownSubscriptionError."""
    given, expression = _checked(event), server.subscription(id).expression
    return explain_event(server.settings.shapes().parse(expression).tree, given)


def _checked(event: Any) -> dict[str, Any]:
    if not isinstance(event, Mapping):
        raise EventError(None, f"an event is a dict, not {type(event).__name__}")
    return dict(event)
