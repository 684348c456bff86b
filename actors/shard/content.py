"""The subscriptions of a shard: an index that matches them, and their ids and subscribers by number. A subscription is replaced in one
step, so that no batch matches both versions, or neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.registry.columns import IntervalColumns, ShardColumns
from actors.server_settings import ServerSettings
from actors.shard.subscription_columns import SubscriptionColumns
from ray_pubsub.index.match_index import MatchIndex

__all__ = ["ShardContent"]


@dataclass(slots=True, eq=False)
class ShardContent:
    """The content of a shard, for one writer at a time and any number of readers."""

    index: MatchIndex
    columns: SubscriptionColumns = field(default_factory=SubscriptionColumns)

    @classmethod
    def empty(cls, settings: ServerSettings, frequencies: Mapping[str, float] | None = None) -> ShardContent:
        """`frequencies` has the expected share of events that carry each attribute."""
        index = MatchIndex(
            settings.engine,
            limits=settings.limits,
            merges="background",
            ignore_case=settings.ignore_case,
            options=settings.options,
            frequencies=frequencies,
        )
        return cls(index)

    def change(self, removed: NDArray[np.int64], added: ShardColumns) -> None:
        """Removes and adds subscriptions. A number that is present already is not added again, because it always means the same
        subscription."""
        numbers = added.all_numbers
        if len(removed):
            removed = removed[~np.isin(removed, numbers)]
            removed = removed[self.columns.known(removed)]
        here = self.columns.known(numbers)
        if here.any():
            added = _without(added, numbers[here])
        ids = self.columns.resolve(removed).ids
        left = np.ones(len(removed), np.bool_)
        # The columns are filled before the index, so that every match can be resolved.
        for block in _joined(added.intervals):
            self.columns.put(block.numbers, block.ids, block.subscribers)
            replaced = left & _isin(ids, block.ids)
            left &= ~replaced
            self.index.add_predicates(block.table, atomic=True, removing=removed[replaced])
        self.columns.put(added.numbers, added.ids, added.subscribers)
        if len(added.numbers):
            self.index.add_many(added.numbers, added.expressions, atomic=True, removing=removed[left])
        elif left.any():
            self.index.remove_many(removed[left])
        self.columns.drop(removed)


def _without(columns: ShardColumns, numbers: NDArray[np.int64]) -> ShardColumns:
    kept = np.flatnonzero(~np.isin(columns.numbers, numbers))
    return replace(
        columns,
        numbers=columns.numbers[kept],
        ids=columns.ids[kept],
        subscribers=columns.subscribers[kept],
        routes=columns.routes[kept],
        expressions=[columns.expressions[place] for place in kept.tolist()],
        intervals=list(_blocks_without(columns.intervals, numbers)),
    )


def _blocks_without(blocks: list[IntervalColumns], numbers: NDArray[np.int64]) -> Iterator[IntervalColumns]:
    for block in blocks:
        kept = ~np.isin(block.numbers, numbers)
        if kept.any():
            rows = np.isin(block.table.column("id").to_numpy(), block.numbers[kept])
            yield IntervalColumns(
                block.numbers[kept],
                block.ids[kept],
                block.subscribers[kept],
                block.routes[kept],
                block.table.filter(rows),
            )


def _joined(blocks: list[IntervalColumns]) -> list[IntervalColumns]:
    """Joins the blocks that have the same schema. The registry's blocks have a size that suits its file; an index built from all at once
    has fewer segments, and so less work for each batch."""
    alike: dict[Any, list[IntervalColumns]] = {}
    for block in blocks:
        alike.setdefault(str(block.table.schema), []).append(block)
    return [
        own[0]
        if len(own) == 1
        else IntervalColumns(
            np.concatenate([block.numbers for block in own]),
            np.concatenate([block.ids for block in own]),
            np.concatenate([block.subscribers for block in own]),
            np.concatenate([block.routes for block in own]),
            pa.concat_tables([block.table for block in own]),
        )
        for own in alike.values()
    ]


def _isin(ids: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    if ids.dtype != object and others.dtype != object:
        return np.isin(ids, others)
    known = set(others.tolist())
    return np.fromiter((identity in known for identity in ids.tolist()), np.bool_, len(ids))
