"""The catalogue of rules: id ↔ number, and for each number the level, the source and the version that removed it. Numbers are never
reused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.priority.confirmation import ALIVE, Source

__all__ = ["RuleBook"]


class RuleBook:
    """Only the writer changes it. Readers hold `died` and `level_of`: these arrays are replaced by longer ones when they are full. Once a
    number is assigned, nothing about it changes but `died`."""

    def __init__(self) -> None:
        self.number_of: dict[str | int, int] = {}
        self.ids: list[str | int] = []
        self.sources: list[Source | None] = []
        self.level_of: NDArray[np.uint8] = np.zeros(64, dtype=np.uint8)
        self.died: NDArray[np.int64] = np.full(64, ALIVE)

    @property
    def count(self) -> int:
        """How many numbers were assigned so far."""
        return len(self.ids)

    def add(self, ids: Sequence[str | int], levels: Any, sources: Sequence[Source]) -> tuple[list[int], list[int]]:
        """Returns the numbers of the new rules and the numbers they replace; of equal ids in one call the last one wins."""
        first, end = self.count, self.count + len(ids)
        if end > len(self.died):
            room = max(end, 2 * len(self.died))
            self.died = np.concatenate([self.died, np.full(room - len(self.died), ALIVE)])
            self.level_of = np.concatenate([self.level_of, np.zeros(room - len(self.level_of), np.uint8)])
        self.level_of[first:end] = levels
        given = dict(zip(ids, range(first, end), strict=True))
        if len(given) < len(ids):  # a repeated id counts at its last position
            given = dict(sorted(given.items(), key=lambda item: item[1]))
        replaced = [self.number_of.pop(identity) for identity in given.keys() & self.number_of.keys()]
        self.ids.extend(ids)
        self.sources.extend(sources)
        self.number_of.update(given)
        added = list(given.values())
        for number in set(range(first, end)).difference(added):
            self.sources[number] = None
            self.died[number] = 0  # never visible: a later rule of the same call has its id
        return added, replaced

    def remove(self, ids: Sequence[str | int]) -> list[int]:
        """Removes ids, and returns the numbers of those that existed."""
        found = [self.number_of.pop(identity, None) for identity in dict.fromkeys(ids)]
        return [number for number in found if number is not None]

    def source(self, number: int) -> Source:
        source = self.sources[number]
        assert source is not None
        return source

    def instantiable(self, numbers: Sequence[int]) -> list[int]:
        """Returns the rules that get cells in the filters: those above the default level. The others change no event's priority."""
        return [number for number, level in zip(numbers, self.level_of[list(numbers)].tolist(), strict=True) if level]
