"""A few matches of one event, as they cross processes: in lists. Columns of a few numbers take longer to make than all else that is done
with such an answer on its way, so they are made only for who reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ray_pubsub.sharding.merging import ShardMatches, subscribers_of

__all__ = ["FEW_PLAIN", "FewMatches", "listed_subscribers"]

FEW_PLAIN = 64
"""Up to this number of matches of one event are sent as they are."""
PLACES_OF_ONE = np.arange(FEW_PLAIN, dtype=np.int32)
PLACES_OF_ONE.flags.writeable = False


class FewMatches(ShardMatches):
    """The answer of a shard about one event. `listed` has, of each match, the subscription's id, its subscriber's code and, unless None,
    its number."""

    __slots__ = ("listed",)
    listed: tuple[list[Any], list[int], list[int] | None]

    def __init__(self, ids: list[Any], subscribers: list[int], numbers: list[int] | None) -> None:
        """`subscribers` must fit 32 bits, numbers 64."""
        self.listed = ids, subscribers, numbers

    def __getattr__(self, name: str) -> Any:
        """Makes the columns when the first of them is read; before, Python finds their slots empty and comes here."""
        if name not in ShardMatches.__slots__:
            raise AttributeError(name)
        ids, subscribers, numbers = self.listed
        self.offsets = np.array([0, len(ids)])
        self.places = PLACES_OF_ONE[: len(ids)]
        self.ids = np.array(ids, np.int64 if str not in map(type, ids) else object)
        self.subscribers = np.array(subscribers, np.int32)
        self.numbers = None if numbers is None else np.array(numbers, np.int64)
        for column in (self.offsets, self.ids, self.subscribers):
            column.flags.writeable = False  # as what is read from a frame in columns
        return object.__getattribute__(self, name)

    def __len__(self) -> int:
        return len(self.listed[0])

    @property
    def events(self) -> int:
        return 1


def listed_subscribers(parts: Sequence[ShardMatches]) -> list[int]:
    """Returns the codes of the subscribers that occur, each once, ascending."""
    codes: set[int] = set()
    for part in parts:
        if type(part) is not FewMatches:
            found: list[int] = subscribers_of(parts).tolist()
            return found
        codes.update(part.listed[1])
    return sorted(codes)
