"""What the registry takes and hands out: columns for clients and shards, single subscriptions, pages and reports for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import shortened
from ray_pubsub.model.metadata import Metadata
from ray_pubsub.sharding.pivots import Route
from ray_pubsub.sharding.rebalance import Move

__all__ = [
    "LARGEST_PAGE",
    "Counts",
    "IntervalColumns",
    "Page",
    "RebalanceReport",
    "Rule",
    "ShardChanges",
    "ShardColumns",
    "StoredSubscription",
    "TextColumns",
]

LARGEST_PAGE = 10_000
"""Subscriptions in one answer of the registry."""


@dataclass(slots=True, eq=False)
class TextColumns:
    """Subscriptions given as expressions, in lists of one length."""

    ids: list[Any]
    subscribers: list[Any]
    expressions: list[Any]
    data: list[Any] | None = None
    """What each of them carries, as it was given; None if none does."""
    tags: list[Any] | None = None
    metadata: list[Metadata | None] | None = None
    """The same, checked: made by the registry of the two columns above."""

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, positions: Sequence[int]) -> TextColumns:
        """Those at these positions."""
        columns = (self.ids, self.subscribers, self.expressions, self.data, self.tags, self.metadata)
        taken = (None if column is None else [column[position] for position in positions] for column in columns)
        return TextColumns(*taken)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False)
class IntervalColumns:
    """Subscriptions given as intervals: one row each in the first four columns, and their intervals in `table`, whose id is the number."""

    numbers: NDArray[np.int64]
    ids: NDArray[Any]
    subscribers: NDArray[np.int32]
    routes: NDArray[np.int32]
    table: Any


@dataclass(frozen=True, slots=True, eq=False)
class ShardColumns:
    """Subscriptions as a shard loads them, as of a version, by ascending number; `routes` are codes."""

    version: int
    numbers: NDArray[np.int64]
    ids: NDArray[Any]
    subscribers: NDArray[np.int32]
    routes: NDArray[np.int32]
    expressions: list[str]
    intervals: list[IntervalColumns] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.numbers) + sum(len(block.numbers) for block in self.intervals)

    @classmethod
    def empty(cls, version: int) -> ShardColumns:
        whole = np.empty(0, np.int64)
        return cls(version, whole, whole, whole.astype(np.int32), whole.astype(np.int32), [])

    @property
    def all_numbers(self) -> NDArray[np.int64]:
        """The numbers of all subscriptions, given as expressions or as intervals."""
        return np.concatenate([self.numbers, *(block.numbers for block in self.intervals)])


@dataclass(frozen=True, slots=True, eq=False)
class ShardChanges:
    """What brings a shard from one version to another: remove `removed` first, then add `added`. `removed` may contain numbers that the
    shard never had."""

    since: int
    version: int
    removed: NDArray[np.int64]
    added: ShardColumns


@dataclass(frozen=True, slots=True, repr=False)
class StoredSubscription:
    """One subscription of a server. The expression of one given as intervals is written from them."""

    number: int
    id: str | int
    subscriber: str
    kind: Literal["text", "intervals"]
    expression: str
    shard: int
    route: Route
    """The attributes of which an event must carry at least one to match."""
    version: int
    """The version of the registry that added it."""
    data: Any = None
    """What it carries, as it was given; None if nothing."""
    tags: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """What a person looks for; the rest are fields."""
        shown = shortened(repr(self.expression))
        return f"StoredSubscription(id={self.id!r}, subscriber={self.subscriber!r}, expression={shown}, shard={self.shard})"


@dataclass(frozen=True, slots=True)
class Page:
    """Some subscriptions by ascending number; `after` is the argument for the next page, None if this is the last."""

    items: list[StoredSubscription]
    after: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A priority rule of a server: events that match the expression have at least this level."""

    id: str | int
    level: str
    expression: str
    version: int
    """The version of the registry that added it."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much is stored, as of a version."""

    version: int
    subscriptions: int
    as_text: int
    as_intervals: int
    subscribers: int
    rules: int


@dataclass(frozen=True, slots=True)
class RebalanceReport:
    """What `Server.rebalance` moved, and per shard the load (subscriptions times the frequency of their pivots) before and after."""

    moves: list[Move]
    moved: int
    """Subscriptions moved."""
    before: list[float]
    after: list[float]
    rerouted: int = 0
    """Subscriptions whose route was chosen again, because events have come to carry other attributes."""
    fan_out: tuple[float, float] | None = None
    """Shards that an event is expected to be sent to, by the routes before and after; None until events were seen."""
