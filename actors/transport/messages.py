"""The messages between actors: plain data, in columns where there may be many values."""

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
"""The number of leases for which the registry waits for a coordinator to confirm a barrier. A batch that takes longer loses its lease
and is matched again."""

RouteCount = tuple[int, Route, int]
"""A shard, a route, and a number of subscriptions."""


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A priority rule that is new or, without an expression, removed."""

    id: str | int
    level: str = ""
    expression: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ShardStart:
    """The initial state of a shard's new instance."""

    epoch: int
    lineage: str
    """The lineage of the registry's data. Numbers and versions of another lineage have no meaning here."""
    content: ShardColumns
    frequencies: dict[str, float] = field(default_factory=dict)
    """For each attribute the share of events that carry it, as far as coordinators have seen."""


@dataclass(frozen=True, slots=True, eq=False)
class ShardPush:
    """Changes for a shard, with the lineage they belong to."""

    lineage: str
    changes: ShardChanges


@dataclass(frozen=True, slots=True, eq=False)
class News:
    """Changes for coordinators."""

    version: int
    touched: tuple[int, ...] = ()
    """The shards that must have this version from now on."""
    added: list[RouteCount] = field(default_factory=list)
    removed: list[RouteCount] = field(default_factory=list)
    subscribers: dict[int, str] = field(default_factory=dict)
    rules: list[RuleChange] = field(default_factory=list)
    moving: bool = False
    """Whether a subscription may be on two shards at once."""
    barrier: bool = False
    """Whether the note may be confirmed only when no batch is being matched that began before it."""


@dataclass(frozen=True, slots=True, eq=False)
class Note:
    """News that a coordinator must confirm before a change is acknowledged. Notes are numbered; a coordinator that missed one requests
    the whole state."""

    registry_epoch: int
    lineage: str
    serial: int
    news: News


@dataclass(frozen=True, slots=True, eq=False)
class CoordinatorState:
    """The initial state of a coordinator's new instance."""

    epoch: int
    registry_epoch: int
    lineage: str
    serial: int
    """The serial of the last note that is contained in this state."""
    version: int
    needed: NDArray[np.int64]
    """For each shard, the version that it must have."""
    routes: list[RouteCount]
    """The routes of all subscriptions."""
    subscribers: dict[int, str]
    rules: list[Rule]
    moving: bool
    lease: float
