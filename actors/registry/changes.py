"""The changes that the registry's store commits, and its answers.

A change that carries an idempotency key may be sent again: the store remembers the answer for a while and does not repeat the change. The
answer then has `repeated` set, so that subscriptions are counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.metadata import Metadata
from ray_pubsub.sharding.pivots import UNIVERSAL, Route

__all__ = [
    "Answer",
    "BulkAnswer",
    "Change",
    "Gone",
    "GoneColumns",
    "MoveSubscriptions",
    "PutRule",
    "RemoveRule",
    "SetSetting",
    "Subscribe",
    "Unsubscribe",
]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Adds a subscription that was parsed and assigned to a shard. A subscription with the same id is replaced in the same step."""

    id: str | int
    subscriber: str
    expression: str
    shard: int = 0
    route: Route = UNIVERSAL
    key: str | None = None
    metadata: Metadata | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Removes a subscription, if there is one with this id."""

    id: str | int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class PutRule:
    """Adds or replaces a priority rule."""

    id: str | int
    level: str
    expression: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveRule:
    """Removes a priority rule, if there is one with this id."""

    id: str | int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class SetSetting:
    """Stores a value that msgpack can write."""

    name: str
    value: Any
    key: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MoveSubscriptions:
    """Moves those of these subscriptions that are on the source to the target; the others stay where they are. With a route, the moved
    subscriptions also get that route; the target may then be the source."""

    numbers: Sequence[int] | NDArray[np.int64]
    source: int
    target: int
    key: str | None = None
    route: Route | None = None


Change = Subscribe | Unsubscribe | PutRule | RemoveRule | SetSetting | MoveSubscriptions


@dataclass(frozen=True, slots=True)
class Gone:
    """A subscription that was removed or replaced: its number, the shard it was on, and its route."""

    number: int
    shard: int
    route: Route


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one change: the version that contains it; for a subscription its `number` and the one it replaced or removed
    (`gone`); for a removal whether there was something to remove (`found`); for a move the number of subscriptions moved."""

    version: int
    number: int = 0
    found: bool = True
    gone: Gone | None = None
    moved: int = 0
    repeated: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class GoneColumns:
    """Subscriptions that were removed or replaced, in columns. `routes` are codes (`RegistryStore.route`)."""

    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    shards: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    routes: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True, eq=False)
class BulkAnswer:
    """The result of a bulk change. Added subscriptions have the numbers from `first` on, in the order of the input."""

    version: int
    first: int = 0
    count: int = 0
    """The number of subscriptions that were added, or by a removal removed."""
    gone: GoneColumns = field(default_factory=GoneColumns)
    kept: NDArray[np.int64] | None = None
    """The positions in the input of the subscriptions that were added, in ascending order; None if all were. Of equal ids only the last
    is added."""
    repeated: bool = False
