"""How a server matches one event: which shards it visits, and each one's plan."""

from __future__ import annotations

from dataclasses import dataclass

from ray_pubsub.engines.plan import IndexPlan

__all__ = ["ServerPlan"]


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """Print it to read it."""

    shards: dict[int, IndexPlan]
    """The plans of the shards that are visited, by their numbers."""
    of: int
    """How many shards there are."""

    def __str__(self) -> str:
        if not self.shards:
            return (
                f"no shard of {self.of} has a subscription that could match: none of their pivots occurs in the event"
            )
        skipped = [str(shard) for shard in range(self.of) if shard not in self.shards]
        lines = [f"visits {len(self.shards)} of {self.of} shards" + (f"; not {', '.join(skipped)}" if skipped else "")]
        for shard, plan in self.shards.items():
            lines += [f"\nshard {shard}", str(plan)]
        return "\n".join(lines)
