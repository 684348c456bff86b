"""How a server matches one event: which shards it visits, and each one's plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ray_pubsub.engines.plan import IndexPlan
from ray_pubsub.errors import counted

__all__ = ["ServerPlan"]


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """Print it to read it."""

    shards: dict[int, IndexPlan]
    """The plans of the shards that are visited, by their numbers."""
    of: int
    """How many shards there are."""

    @property
    def matches(self) -> int:
        """Of all shards; a subscription that is just being moved may count twice."""
        return sum(plan.matches for plan in self.shards.values())

    def to_dict(self) -> dict[str, Any]:
        """As dictionaries, lists, strings and numbers."""
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
