"""What the actors tell one another. Plain data: columns where there are many of something."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.registry_columns import Rule, ShardChanges, ShardColumns
from actors.stored_batch import Stored
from ray_pubsub.sharding.merging import ShardMatches
from ray_pubsub.sharding.pivots import Route

__all__ = [
    "NO_NUMBERS",
    "CoordinatorState",
    "News",
    "Note",
    "RouteCount",
    "RuleChange",
    "ShardPush",
    "ShardReply",
    "ShardStart",
    "empty_columns",
]

NO_NUMBERS = np.empty(0, np.int64)

RouteCount = tuple[int, Route, int]
"""A shard, a route, and how many subscriptions."""


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A priority rule that is new; or, without an expression, gone."""

    id: str | int
    level: str = ""
    expression: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ShardStart:
    """What a shard's new instance begins with."""

    epoch: int
    lineage: str
    """Of the registry's data: numbers and versions of another lineage mean nothing here."""
    content: ShardColumns


@dataclass(frozen=True, slots=True, eq=False)
class ShardPush:
    """Changes for a shard, and whose."""

    lineage: str
    changes: ShardChanges


@dataclass(frozen=True, slots=True, eq=False)
class ShardReply:
    """A shard's answer to a batch. If there are many matches they stay in the object store, and `matches` stands for them."""

    epoch: int
    version: int
    seconds: float
    count: int
    """How many matches there are."""
    matches: ShardMatches | Stored | None

    def __reduce__(self) -> Any:
        """As a dataclass's state, only quicker."""
        return ShardReply, (self.epoch, self.version, self.seconds, self.count, self.matches)


@dataclass(frozen=True, slots=True, eq=False)
class News:
    """What has changed, for coordinators."""

    version: int
    touched: tuple[int, ...] = ()
    """Shards that must have this version from now on."""
    added: list[RouteCount] = field(default_factory=list)
    removed: list[RouteCount] = field(default_factory=list)
    subscribers: dict[int, str] = field(default_factory=dict)
    rules: list[RuleChange] = field(default_factory=list)
    moving: bool = False
    """Whether a subscription may be on two shards at once."""
    barrier: bool = False
    """Confirmed only when no batch is being matched that came before this."""


@dataclass(frozen=True, slots=True, eq=False)
class Note:
    """News that a coordinator must confirm before a change is acknowledged. Notes are numbered; one who missed one asks for everything."""

    registry_epoch: int
    lineage: str
    serial: int
    news: News


@dataclass(frozen=True, slots=True, eq=False)
class CoordinatorState:
    """What a coordinator's new instance begins with."""

    epoch: int
    registry_epoch: int
    lineage: str
    serial: int
    """Of the last note that is in this."""
    version: int
    needed: NDArray[np.int64]
    """Per shard, the version it must have."""
    routes: list[RouteCount]
    """Of all subscriptions."""
    subscribers: dict[int, str]
    rules: list[Rule]
    moving: bool
    lease: float


def empty_columns(version: int) -> ShardColumns:
    """No subscriptions."""
    return ShardColumns(
        version, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), [], []
    )
