"""The registry's data types: columns for clients and shards; single subscriptions, pages and reports for people."""

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
"""The most subscriptions in one answer of the registry."""


@dataclass(slots=True, eq=False)
class TextColumns:
    """Subscriptions given as expressions, in lists of one length."""

    ids: list[Any]
    subscribers: list[Any]
    expressions: list[Any]
    data: list[Any] | None = None
    """The data of each subscription as it was given; None if no subscription has any."""
    tags: list[Any] | None = None
    metadata: list[Metadata | None] | None = None
    """The data and tags of each subscription, checked; the registry makes this from the two columns above."""

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, positions: Sequence[int]) -> TextColumns:
        """Returns the subscriptions at these positions."""
        columns = (self.ids, self.subscribers, self.expressions, self.data, self.tags, self.metadata)
        taken = (None if column is None else [column[position] for position in positions] for column in columns)
        return TextColumns(*taken)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False)
class IntervalColumns:
    """Subscriptions given as intervals: a row for each in the first four columns, and their intervals in `table`, whose id column has
    the numbers."""

    numbers: NDArray[np.int64]
    ids: NDArray[Any]
    subscribers: NDArray[np.int32]
    routes: NDArray[np.int32]
    table: Any


@dataclass(frozen=True, slots=True, eq=False)
class ShardColumns:
    """The subscriptions that a shard loads, as of a version, by ascending number. `routes` are codes."""

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
    """The changes that bring a shard from one version to another. `removed` must be removed before `added` is added, and may contain
    numbers that the shard never had."""

    since: int
    version: int
    removed: NDArray[np.int64]
    added: ShardColumns


@dataclass(frozen=True, slots=True, repr=False)
class StoredSubscription:
    """A subscription of a server. If it was given as intervals, the expression is written from them."""

    number: int
    id: str | int
    subscriber: str
    kind: Literal["text", "intervals"]
    expression: str
    shard: int
    route: Route
    """An event must carry at least one of these attributes to match."""
    version: int
    """The version of the registry that added it."""
    data: Any = None
    """The data as it was given; None if there is none."""
    tags: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Shows what a person looks for; the rest are fields."""
        shown = shortened(repr(self.expression))
        return f"StoredSubscription(id={self.id!r}, subscriber={self.subscriber!r}, expression={shown}, shard={self.shard})"


@dataclass(frozen=True, slots=True)
class Page:
    """Some subscriptions by ascending number. `after` is the argument for the next page, or None if this is the last."""

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
    """The numbers of stored subscriptions, subscribers and rules, as of a version."""

    version: int
    subscriptions: int
    as_text: int
    as_intervals: int
    subscribers: int
    rules: int


@dataclass(frozen=True, slots=True)
class RebalanceReport:
    """The moves that `Server.rebalance` made, and for each shard the load (subscriptions times the frequency of their pivots) before and
    after."""

    moves: list[Move]
    moved: int
    """The number of subscriptions moved."""
    before: list[float]
    after: list[float]
    rerouted: int = 0
    """The number of subscriptions whose route was chosen again, because events now carry other attributes."""
    fan_out: tuple[float, float] | None = None
    """The number of shards that an event is expected to be sent to, by the routes before and after; None until events were seen."""
