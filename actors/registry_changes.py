"""What the registry can be told to change, and what it answers.

A change that carries a `request` id may be sent again: the registry remembers its answer for a while and changes nothing twice. The answer
then says `repeated`, so that whoever counts subscriptions counts them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import RayPubSubError, Rejection
from ray_pubsub.sharding.pivots import UNIVERSAL, Route

__all__ = [
    "Answer",
    "BulkAnswer",
    "Change",
    "Committed",
    "Gone",
    "GoneColumns",
    "MoveSubscriptions",
    "PutRule",
    "RemoveRule",
    "SetPlacement",
    "SetSetting",
    "Subscribe",
    "Unsubscribe",
]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Adds a subscription, which was parsed and placed; one with the same id is replaced in the same step."""

    id: str | int
    subscriber: str
    text: str
    shard: int = 0
    route: Route = UNIVERSAL
    hint: str | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Removes a subscription, if it is there."""

    id: str | int
    request: str | None = None


@dataclass(frozen=True, slots=True)
class PutRule:
    """Adds or replaces a priority rule."""

    id: str | int
    level: str
    expression: str
    request: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveRule:
    """Removes a priority rule, if it is there."""

    id: str | int
    request: str | None = None


@dataclass(frozen=True, slots=True)
class SetSetting:
    """Keeps a value that msgpack can write."""

    name: str
    value: Any
    request: str | None = None


@dataclass(frozen=True, slots=True)
class SetPlacement:
    """Keeps the state of the placement (sharding/placement.py)."""

    state: dict[str, Any]
    request: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MoveSubscriptions:
    """These subscriptions, as far as they are on the source, are on the target from now on. The others stay."""

    numbers: Sequence[int] | NDArray[np.int64]
    source: int
    target: int
    request: str | None = None


Change = Subscribe | Unsubscribe | PutRule | RemoveRule | SetSetting | SetPlacement | MoveSubscriptions


@dataclass(frozen=True, slots=True)
class Gone:
    """A subscription that is no longer there: where it was, and under which route."""

    number: int
    shard: int
    route: Route


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one change: the version that has it; of a subscription its `number` and what it replaced or removed (`gone`); of a
    removal whether there was something (`found`); of a move how many subscriptions were moved."""

    version: int
    number: int = 0
    found: bool = True
    gone: Gone | None = None
    moved: int = 0
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """The version after a group, and per change its answer, or the error for which it alone was left out."""

    version: int
    answers: list[Answer | RayPubSubError]


@dataclass(frozen=True, slots=True, eq=False)
class GoneColumns:
    """Subscriptions that are no longer there; `route` is a code (`RegistryStore.route`)."""

    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    shards: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    routes: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))


@dataclass(frozen=True, slots=True, eq=False)
class BulkAnswer:
    """What became of a table: the good subscriptions have the numbers from `first` on, in their order; what they replaced; and the
    bad ones. Of equal ids the last one counts; the others got no number: `kept` says which positions of the good ones are in."""

    version: int
    first: int
    added: int
    gone: GoneColumns = field(default_factory=GoneColumns)
    rejections: list[Rejection] = field(default_factory=list)
    kept: NDArray[np.int64] | None = None
    """Positions in the input of the subscriptions that were added, ascending; None if all were."""
    repeated: bool = False
