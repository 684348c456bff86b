"""What the actors tell one another. Plain data: columns where there are many of something."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from actors.registry.columns import Rule, ShardChanges, ShardColumns
from ray_pubsub.sharding.pivots import Route

__all__ = [
    "BARRIER_LEASES",
    "NO_NUMBERS",
    "CoordinatorState",
    "News",
    "Note",
    "RouteCount",
    "RuleChange",
    "ShardPush",
    "ShardStart",
]

NO_NUMBERS = np.empty(0, np.int64)
BARRIER_LEASES = 2
"""Leases for which the registry waits for a coordinator to confirm a barrier. A batch that takes longer loses its lease and is matched
again."""

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
    frequencies: dict[str, float] = field(default_factory=dict)
    """Attribute → the share of events that carry it, as far as coordinators have seen."""


@dataclass(frozen=True, slots=True, eq=False)
class ShardPush:
    """Changes for a shard, and whose."""

    lineage: str
    changes: ShardChanges


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
