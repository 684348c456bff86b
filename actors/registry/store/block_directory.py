"""Locates the subscriptions of the interval blocks: id → number → block. It is kept in memory and derived from the store."""

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
    """The directory of blocks, for one writer at a time. It changes only when the change is on disk."""

    def __init__(self) -> None:
        self._numbers = SlotMap()
        """Id → number of the living subscriptions."""
        self._blocks: dict[int, Block] = {}
        self._firsts: list[int] = []
        self._order: list[int] = []

    def __len__(self) -> int:
        """The number of living subscriptions."""
        return len(self._numbers)

    def add(self, key: int, block: Block, dead: NDArray[np.int64] | None = None) -> None:
        """Adds a block with its ids, except the dead ones."""
        self._blocks[key] = block
        if not self._firsts or block.numbers[0] > self._firsts[-1]:  # blocks usually arrive in order
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
        """Replaces a block by one with the same living subscriptions, or removes it (None) if none of them is left."""
        if block is None:
            del self._blocks[key]
        else:
            self._blocks[key] = block
        self._sort()

    def remove(self, ids: Sequence[str | int]) -> None:
        """Removes subscriptions that are dead."""
        for identity in ids:
            self._numbers.pop(identity)

    def number(self, identity: str | int) -> int:
        """Returns the number of an id, or -1 if no block has it alive."""
        return self._numbers.get(identity) if len(self._numbers) else -1

    def numbers(self, ids: Sequence[Any]) -> list[int]:
        """Returns the numbers of many ids."""
        return [self._numbers.get(identity) for identity in ids] if len(self._numbers) else [-1] * len(ids)

    def shard_and_route(self, number: int) -> tuple[int, int]:
        """Returns the shard of a subscription in a block, and the code of its route."""
        block = self._blocks[self._order[bisect_right(self._firsts, number) - 1]]
        place = int(np.searchsorted(block.numbers, number))
        return int(block.shards[place]), int(block.routes[place])

    def places_of(self, numbers: NDArray[np.int64]) -> Iterator[tuple[Block, NDArray[np.int64]]]:
        """Yields the blocks that have these numbers, which ascend, with the positions of the numbers in each block."""
        starts = np.searchsorted(numbers, np.array(self._firsts, dtype=np.int64))
        for key, own in zip(self._order, np.split(numbers, starts[1:]), strict=True):
            if len(own):
                yield self._blocks[key], np.searchsorted(self._blocks[key].numbers, own)

    def items(self) -> list[tuple[int, Block]]:
        """Returns all blocks, by ascending numbers."""
        return [(key, self._blocks[key]) for key in self._order]

    def _sort(self) -> None:
        self._order = sorted(self._blocks, key=lambda key: int(self._blocks[key].numbers[0]))
        self._firsts = [int(self._blocks[key].numbers[0]) for key in self._order]
