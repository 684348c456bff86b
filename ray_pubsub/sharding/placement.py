"""Chooses the shard of a new subscription by its pivot. Pure decisions: the same calls give the same answers in every process.

The subscriptions of one pivot are kept together, so that few events visit a shard without a match; a new pivot goes to the shard with the
least load. A pivot that has more than its share is split: from then on its new subscriptions go to all shards, by a hash of their ids.
Dense data has one pivot for everything: there the first few hundred stay together and all others are spread, so that no move is needed
later.

The cost of a subscription for its shard is how often its pivot occurs in events (frequency.py). A subscription stays on its shard, which
the registry stores. So the saved state is small: which pivots are split, and how. Everything else is counted again (`recount`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from ray_pubsub.errors import SettingError
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import ANYWHERE, PivotColumn, Route

if TYPE_CHECKING:
    from ray_pubsub.sharding.rebalance import Move

__all__ = ["PARTS", "Placement", "part_of", "parts_of"]

PARTS = 256
"""A pivot is divided into this many parts, which are placed and moved as wholes."""
SPLIT_FROM = 256
"""A pivot with fewer subscriptions is never split."""
SHARE = 0.25
"""A pivot with more than this share of the mean load of a shard is split."""
MOST_SHARDS = 1024


def part_of(id: str | int) -> int:
    """Returns the part of its pivot that a subscription is in: a hash of its id, the same in every process."""
    content = id.encode() if isinstance(id, str) else id.to_bytes(8, "little", signed=True)
    return xxhash.xxh3_64_intdigest(content) % PARTS


def parts_of(ids: Sequence[str | int] | NDArray[Any]) -> NDArray[np.uint8]:
    """Returns the parts of many ids."""
    if isinstance(ids, np.ndarray) and ids.dtype == np.int64:
        content, hashed = memoryview(ids.astype("<i8").tobytes()), xxhash.xxh3_64_intdigest
        places = range(0, len(content), 8)
        return np.fromiter((hashed(content[place : place + 8]) % PARTS for place in places), np.uint8, count=len(ids))
    listed = ids.tolist() if isinstance(ids, np.ndarray) else ids
    return np.fromiter(map(part_of, listed), dtype=np.uint8, count=len(listed))


@dataclass(slots=True, eq=False)
class PivotState:
    """A pivot: the cost of one of its subscriptions, how many of them each shard has and, if it is split, the shard of each part."""

    load: float
    counts: dict[int, int] = field(default_factory=dict)
    table: list[int] | None = None

    @property
    def count(self) -> int:
        return sum(self.counts.values())


class Placement:
    """Decides for one registry. Not thread-safe.

    >>> placement = Placement(2)
    >>> [placement.place(Route((pivot,)), "s1") for pivot in ("price", "model", "price")]
    [0, 1, 0]
    """

    def __init__(self, shards: int, frequencies: AttributeFrequencies | None = None) -> None:
        if not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
            raise SettingError("shards", f"must be a whole number from 1 to {MOST_SHARDS}, not {shards!r}")
        self.shards = shards
        self.version = 0
        """Incremented when `state` should be saved: a pivot was split or moved."""
        self._frequencies = frequencies or AttributeFrequencies()
        self._pivots: dict[str, PivotState] = {}
        self._loads = [0.0] * shards
        self._sizes = [0] * shards

    @property
    def loads(self) -> list[float]:
        """The load of each shard: the sum over its subscriptions of how often their pivots occur."""
        return list(self._loads)

    @property
    def sizes(self) -> list[int]:
        """The number of subscriptions of each shard."""
        return list(self._sizes)

    def place(self, route: Route, id: str | int) -> int:
        """Chooses the shard of one more subscription, and counts it there."""
        state = self._state(route.home)
        self._split_if_hot(state, 1, sum(self._loads) + state.load)
        shard = self._home(state) if state.table is None else state.table[part_of(id)]
        self._count(state, shard, 1)
        return shard

    def place_many(self, pivots: PivotColumn, ids: Sequence[str | int] | NDArray[Any]) -> NDArray[np.int32]:
        """Chooses the shards of many subscriptions, in columns. The largest pivots are placed first, which gives the most even loads."""
        amounts = np.bincount(pivots.code, minlength=len(pivots.routes))
        states = {int(code): self._state(pivots.routes[code].home) for code in np.flatnonzero(amounts)}
        total = sum(self._loads) + sum(state.load * int(amounts[code]) for code, state in states.items())
        # Per pivot one shard for all its subscriptions, or a table by part; a table of one entry stands for the former.
        tables = np.zeros((len(pivots.routes), 1), dtype=np.int32)
        parts: NDArray[np.uint8] | None = None
        split: list[int] = []
        heaviest_first = sorted(states, key=lambda code: (-states[code].load * amounts[code], pivots.routes[code].home))
        for code in heaviest_first:
            state, amount = states[code], int(amounts[code])
            self._split_if_hot(state, amount, total)
            if state.table is None:
                tables[code] = self._home(state)
                self._count(state, int(tables[code, 0]), amount)
            else:
                split.append(code)
        shards: NDArray[np.int32] = tables[pivots.code, 0]
        for code in split:
            parts = parts_of(ids) if parts is None else parts
            state, own = states[code], pivots.code == code
            table = np.array(state.table, dtype=np.int32)
            shards[own] = table[parts[own]]
            for shard, amount in enumerate(np.bincount(shards[own], minlength=self.shards).tolist()):
                self._count(state, shard, amount)
        return shards

    def put(self, route: Route, shard: int, count: int = 1) -> None:
        """Counts this number of further subscriptions of the route on the shard."""
        self._count(self._state(route.home), shard, count)

    def remove(self, route: Route, shard: int, count: int = 1) -> None:
        """Subtracts this number of subscriptions of the route from the shard."""
        state = self._pivots.get(route.home)
        if not count:
            return
        if state is None or state.counts.get(shard, 0) < count:
            raise SettingError(
                "placement", f"shard {shard} has no {count} subscriptions under {route.home!r} to remove"
            )
        self._count(state, shard, -count)
        if not state.counts and state.table is None:
            del self._pivots[route.home]

    def recount(self, counts: Iterable[tuple[int, Route, int]]) -> None:
        """Replaces all counts: shard, route and number of subscriptions, as the registry has them."""
        self._pivots = {name: state for name, state in self._pivots.items() if state.table is not None}
        for state in self._pivots.values():
            state.counts = {}
        self._loads, self._sizes = [0.0] * self.shards, [0] * self.shards
        for shard, route, count in counts:
            self._count(self._state(route.home), shard, count)

    def reweigh(self, frequencies: AttributeFrequencies) -> None:
        """Uses these frequencies from now on."""
        self._frequencies = frequencies
        self._loads = [0.0] * self.shards
        for pivot, state in self._pivots.items():
            state.load = self._load(pivot)
            for shard, count in state.counts.items():
                self._loads[shard] += state.load * count

    def apply(self, moves: Iterable[Move]) -> None:
        """Records moves that were carried out: new subscriptions of the moved parts go to the same shards."""
        for move in moves:
            state = self._state(move.pivot)
            if not move.parts:
                state.table = None if state.table is None else [
                    move.target if shard == move.source else shard for shard in state.table
                ]  # fmt: skip
            else:
                table = [move.source] * PARTS if state.table is None else list(state.table)
                for part in move.parts:
                    table[part] = move.target
                state.table = table
            moved = min(move.subscriptions, state.counts.get(move.source, 0))
            self._count(state, move.source, -moved)
            self._count(state, move.target, moved)
            self.version += 1

    def state(self) -> dict[str, Any]:
        """Returns the state that cannot be counted from the subscriptions, as plain data for msgpack."""
        split = {pivot: state.table for pivot, state in self._pivots.items() if state.table is not None}
        return {"version": self.version, "shards": self.shards, "split": split}

    @classmethod
    def of_state(cls, state: Mapping[str, Any], frequencies: AttributeFrequencies | None = None) -> Placement:
        """Restores what `state` returned. The subscriptions must then be counted with `recount`."""
        made = cls(state["shards"], frequencies)
        made.version = state["version"]
        for pivot, table in state["split"].items():
            made._state(pivot).table = list(table)
        return made

    def _load(self, pivot: str) -> float:
        return 1.0 if pivot == ANYWHERE else self._frequencies.load(pivot)

    def _state(self, pivot: str) -> PivotState:
        state = self._pivots.get(pivot)
        if state is None:
            state = self._pivots[pivot] = PivotState(self._load(pivot))
        return state

    def _home(self, state: PivotState) -> int:
        """Returns the shard of a whole pivot: where most of it is or, for a new one, the shard with the least load."""
        if state.counts:
            return max(state.counts, key=lambda shard: (state.counts[shard], -shard))
        return self._idlest()[0]

    def _idlest(self) -> list[int]:
        return sorted(range(self.shards), key=lambda shard: (self._loads[shard], self._sizes[shard], shard))

    def _split_if_hot(self, state: PivotState, more: int, total: float) -> None:
        """Splits a pivot that has too large a share of the load. `more`: how many subscriptions are about to be added, `total`: the load
        of all shards with them."""
        if state.table is not None or self.shards == 1:
            return
        count = state.count + more
        if count > SPLIT_FROM and count * state.load > SHARE * total / self.shards:
            order = self._idlest()
            state.table = [order[part % self.shards] for part in range(PARTS)]
            self.version += 1

    def _count(self, state: PivotState, shard: int, more: int) -> None:
        if not more:
            return
        count = state.counts.get(shard, 0) + more
        if count:
            state.counts[shard] = count
        else:
            del state.counts[shard]
        self._sizes[shard] += more
        # A shard without subscriptions has no load; this removes rounding errors.
        self._loads[shard] = self._loads[shard] + more * state.load if self._sizes[shard] else 0.0
