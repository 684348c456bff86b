"""What the registry hands out: columns for shards, single subscriptions and pages of them for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import shortened
from ray_pubsub.sharding.pivots import Route

__all__ = ["Counts", "IntervalColumns", "Page", "Rule", "ShardChanges", "ShardColumns", "StoredSubscription"]


@dataclass(frozen=True, slots=True, eq=False)
class IntervalColumns:
    """Subscriptions given as intervals: a row each in the first four, and their rows in `table`, in which a number is the id."""

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
    hints: list[str | None]
    texts: list[str]
    intervals: list[IntervalColumns] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.numbers) + sum(len(block.numbers) for block in self.intervals)


@dataclass(frozen=True, slots=True, eq=False)
class ShardChanges:
    """What brings a shard from one version to another: first take out `removed`, then put in `added`. A number in `removed` may be one
    that the shard never had."""

    since: int
    version: int
    removed: NDArray[np.int64]
    added: ShardColumns


@dataclass(frozen=True, slots=True, repr=False)
class StoredSubscription:
    """One subscription. The text of one given as intervals is as it would be written."""

    number: int
    id: str | int
    subscriber: str
    kind: Literal["text", "intervals"]
    text: str
    shard: int
    route: Route
    version: int
    hint: str | None = None

    def __repr__(self) -> str:
        """What a person looks for; the rest are fields."""
        text = shortened(repr(self.text))
        return f"StoredSubscription(id={self.id!r}, subscriber={self.subscriber!r}, text={text}, shard={self.shard})"


@dataclass(frozen=True, slots=True)
class Page:
    """Some subscriptions by ascending number; `after` is what to ask with for the next page, None if this is the last."""

    items: list[StoredSubscription]
    after: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A priority rule."""

    id: str | int
    level: str
    expression: str
    version: int


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is, as of a version."""

    version: int
    subscriptions: int
    as_text: int
    as_intervals: int
    subscribers: int
    rules: int
