"""Where the subscriptions of the interval blocks are: id → number → block. In memory, derived from the store."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.registry.store.interval_blocks import Block
from ray_pubsub.index.slot_map import SlotMap

__all__ = ["BlockDirectory"]


class BlockDirectory:
    """One writer at a time. Changed only when what it says is on disk."""

    def __init__(self) -> None:
        self._numbers = SlotMap()
        """Id → number, of the living."""
        self._blocks: dict[int, Block] = {}
        self._firsts: list[int] = []
        self._order: list[int] = []

    def __len__(self) -> int:
        """How many subscriptions are alive."""
        return len(self._numbers)

    def add(self, key: int, block: Block, dead: NDArray[np.int64] | None = None) -> None:
        """A block with its ids, but for the dead ones."""
        self._blocks[key] = block
        if not self._firsts or block.numbers[0] > self._firsts[-1]:  # as they come
            self._order.append(key)
            self._firsts.append(int(block.numbers[0]))
        else:
            self._sort()
        numbers, ids = block.numbers, block.ids
        if dead is not None and len(dead):
            alive = ~np.isin(numbers, dead)
            numbers, ids = numbers[alive], ids[alive]
        if len(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1:
            self._numbers.put_many(ids, int(numbers[0]))
        else:
            for identity, number in zip(ids.tolist(), numbers.tolist(), strict=True):
                self._numbers.put(identity, number)

    def replace(self, key: int, block: Block | None) -> None:
        """The same living subscriptions in another block, or none of them is left."""
        if block is None:
            del self._blocks[key]
        else:
            self._blocks[key] = block
        self._sort()

    def remove(self, ids: Sequence[str | int]) -> None:
        """They are dead."""
        for identity in ids:
            self._numbers.pop(identity)

    def number(self, identity: str | int) -> int:
        """The number of an id, -1 if no block has it alive."""
        return self._numbers.get(identity) if len(self._numbers) else -1

    def numbers(self, ids: Sequence[Any]) -> list[int]:
        """The numbers of many ids."""
        return [self._numbers.get(identity) for identity in ids] if len(self._numbers) else [-1] * len(ids)

    def shard_and_route(self, number: int) -> tuple[int, int]:
        """Where a subscription that a block has is, and the code of its route."""
        block = self._blocks[self._order[bisect_right(self._firsts, number) - 1]]
        place = int(np.searchsorted(block.numbers, number))
        return int(block.shards[place]), int(block.routes[place])

    def places_of(self, numbers: NDArray[np.int64]) -> Iterator[tuple[Block, NDArray[np.int64]]]:
        """The blocks that have these numbers, ascending, and where in them they are."""
        starts = np.searchsorted(numbers, np.array(self._firsts, dtype=np.int64))
        for key, own in zip(self._order, np.split(numbers, starts[1:]), strict=True):
            if len(own):
                yield self._blocks[key], np.searchsorted(self._blocks[key].numbers, own)

    def items(self) -> list[tuple[int, Block]]:
        """All blocks, by ascending numbers."""
        return [(key, self._blocks[key]) for key in self._order]

    def _sort(self) -> None:
        self._order = sorted(self._blocks, key=lambda key: int(self._blocks[key].numbers[0]))
        self._firsts = [int(self._blocks[key].numbers[0]) for key in self._order]
