"""Changes of a registry's store, as the tests make them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from actors.registry.changes import (
    Answer,
    BulkAnswer,
)
from actors.registry.columns import TextColumns
from actors.registry.interval_load import IntervalLoad
from actors.registry.store.store import RegistryStore
from ray_pubsub.sharding.pivots import UNIVERSAL, PivotColumn


def one(store: RegistryStore, change: Any) -> Answer:
    (answer,) = store.commit([change])
    return answer


def pivots(routes: Any, count: int) -> PivotColumn:
    return PivotColumn.of([UNIVERSAL] * count if routes is None else routes)


def put_texts(
    store: RegistryStore, rows: list[Any], shards: Any = None, routes: Any = None, key: Any = None
) -> BulkAnswer:
    """Rows of id, subscriber and expression."""
    columns = TextColumns(*(list(column) for column in zip(*rows, strict=True)))
    placed = np.zeros(len(rows), np.int32) if shards is None else np.array(shards, np.int32)
    return store.commit_texts(columns, placed, pivots(routes, len(rows)), key)


def put_intervals(
    store: RegistryStore, load: IntervalLoad, shards: Any = None, routes: PivotColumn | None = None, key: Any = None
) -> BulkAnswer:
    placed = np.zeros(len(load), np.int32) if shards is None else np.array(shards, np.int32)
    return store.commit_intervals(load, placed, pivots(None, len(load)) if routes is None else routes, key)


def intervals(ids: list[Any], **columns: Any) -> pa.Table:
    count = len(ids)
    filled = {"attribute": ["x"] * count, "low": list(range(count)), "high": list(range(count)), **columns}
    return pa.table({"id": ids, **filled})
