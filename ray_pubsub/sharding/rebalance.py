"""Plans which parts of pivots to move to another shard, so that the loads become even with few moves. Pure decisions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ray_pubsub.errors import SettingError
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import ANYWHERE

__all__ = ["Group", "Move", "plan_rebalance"]

MOST_MOVES = 100_000
LAST = chr(0x10FFFF)


class Group(NamedTuple):
    """Subscriptions that move together: those of one part of one pivot that are on one shard."""

    pivot: str
    part: int
    shard: int
    subscriptions: int


@dataclass(frozen=True, slots=True)
class Move:
    """Moves all subscriptions of these parts of the pivot from one shard to another; no parts stand for the whole pivot."""

    pivot: str
    parts: tuple[int, ...]
    source: int
    target: int
    subscriptions: int


def plan_rebalance(
    groups: Iterable[Group], shards: int, frequencies: AttributeFrequencies | None = None, factor: float = 1.1
) -> list[Move]:
    """Moves after which the largest load is at most `factor` times the mean, or as near to it as whole parts allow.

    Each move takes from the fullest shard to the emptiest the smaller of what the one has too much and the other too little: a whole
    pivot of about that size if there is one, because pivots are better kept together, else parts of a large one. So every move brings one
    of the two shards close to the mean, and about as many moves are needed as there are shards, unless all pivots are small.
    """
    if not factor >= 1:
        raise SettingError("factor", f"must be at least 1, not {factor!r}")
    held = _held(groups, shards, frequencies or AttributeFrequencies())
    mean = sum(shard.load for shard in held) / shards
    moves: list[Move] = []
    while len(moves) < MOST_MOVES:
        source = max(range(shards), key=lambda shard: (held[shard].load, -shard))
        target = min(range(shards), key=lambda shard: (held[shard].load, shard))
        fullest, emptiest = held[source], held[target]
        if fullest.load <= factor * mean:
            break
        chosen = fullest.choose(min(fullest.load - mean, mean - emptiest.load), fullest.load - emptiest.load)
        if chosen is None:
            break  # any move would make the target as full as the source
        pivot, parts = chosen
        whole = len(parts) == len(fullest.pivots[pivot])
        taken = fullest.take(pivot, parts)
        emptiest.put(pivot, taken, fullest.cost[pivot])
        moves.append(Move(pivot, () if whole else tuple(sorted(parts)), source, target, sum(taken.values())))
    return moves


def _held(groups: Iterable[Group], shards: int, frequencies: AttributeFrequencies) -> list[Held]:
    pivots: list[dict[str, dict[int, int]]] = [{} for _ in range(shards)]
    for pivot, part, shard, count in groups:
        if not 0 <= shard < shards:
            raise SettingError("groups", f"there is no shard {shard}; there are {shards}")
        parts = pivots[shard].setdefault(pivot, {})
        parts[part] = parts.get(part, 0) + count
    held = [Held() for _ in range(shards)]
    for holder, own in zip(held, pivots, strict=True):
        for pivot, parts in own.items():
            holder.put(pivot, parts, 1.0 if pivot == ANYWHERE else frequencies.load(pivot))
    return held


@dataclass(slots=True, eq=False)
class Held:
    """The content of one shard while the plan is made."""

    load: float = 0.0
    pivots: dict[str, dict[int, int]] = field(default_factory=dict)
    """For each pivot, the number of subscriptions in each part."""
    cost: dict[str, float] = field(default_factory=dict)
    """For each pivot, the load of one subscription."""
    weights: list[tuple[float, str]] = field(default_factory=list)
    """The pivots in the order of their loads, so that the best fit is found by bisection."""

    def put(self, pivot: str, parts: dict[int, int], cost: float) -> None:
        self._forget(pivot)
        own = self.pivots.setdefault(pivot, {})
        for part, count in parts.items():
            own[part] = own.get(part, 0) + count
        self.cost[pivot] = cost
        self._remember(pivot)

    def take(self, pivot: str, parts: list[int]) -> dict[int, int]:
        self._forget(pivot)
        own = self.pivots[pivot]
        taken = {part: own.pop(part) for part in parts}
        if own:
            self._remember(pivot)
        else:
            del self.pivots[pivot]
        return taken

    def choose(self, wanted: float, gap: float) -> tuple[str, list[int]] | None:
        """Returns a pivot and its parts whose load is about `wanted` and less than the gap; None if there are none."""
        slack = min(1.1 * wanted, gap * (1 - 1e-9))  # a little too much in one move is better than a second one
        place = bisect_right(self.weights, (slack, LAST))
        best, heaviest = (self.weights[place - 1] if place else None), self.weights[-1]
        if best is not None and best[0] >= wanted / 2:
            return best[1], list(self.pivots[best[1]])
        if place < len(self.weights):
            pivot = heaviest[1]
            taken, weight = [], 0.0
            for part, count in sorted(self.pivots[pivot].items(), key=lambda item: (-item[1], item[0])):
                if weight + self.cost[pivot] * count <= slack:
                    taken.append(part)
                    weight += self.cost[pivot] * count
            if taken and (best is None or weight >= best[0]):
                return pivot, taken
        if best is not None:
            return best[1], list(self.pivots[best[1]])
        # Nothing fits: take the smallest part that still improves the balance, if there is one.
        single = [
            (self.cost[pivot] * count, pivot, part)
            for pivot, parts in self.pivots.items()
            for part, count in parts.items()
        ]
        weight, pivot, part = min(single)
        return (pivot, [part]) if weight < gap * (1 - 1e-9) else None

    def _weight(self, pivot: str) -> float:
        return self.cost[pivot] * sum(self.pivots[pivot].values())

    def _remember(self, pivot: str) -> None:
        weight = self._weight(pivot)
        insort(self.weights, (weight, pivot))
        self.load += weight

    def _forget(self, pivot: str) -> None:
        if pivot in self.pivots:
            weight = self._weight(pivot)
            del self.weights[bisect_left(self.weights, (weight, pivot))]
            self.load -= weight
