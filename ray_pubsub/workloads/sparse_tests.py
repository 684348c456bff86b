"""The workloads of OpIndex (Table 3 and sections 7.4 and 7.5): a few tests each, on a few of very many attributes.

`generate_sparse` is the paper's generator. Its real data, search logs and product pages, are not public any more (AOL, eBay) or were
sampled in a way that cannot be repeated; `keywords` and `products` draw data with the properties that the paper states: numbers of
attributes, lengths, how skewed they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.workloads.distributions import distinct_in_rows, zipf_ranks
from ray_pubsub.workloads.standard import Workload

__all__ = ["SparseTests", "generate_sparse", "keywords", "products"]

KEYWORDS = 50_000
QUERY_LENGTHS = np.array([0.3, 0.3, 0.2, 0.1, 0.1])
"""Shares of search queries of 1, 2, … words; the mean is 2.4, as in the AOL log."""
PRODUCT_ATTRIBUTES = 10_204


@dataclass(frozen=True, slots=True)
class SparseTests:
    """OpIndex Table 3, with the paper's defaults; below a million subscriptions its numbers are ours."""

    subscriptions: int = 1_000_000
    dimensions: int = 20_000
    """d."""
    largest: int = 8
    """Γmax: a subscription has from 1 to this many tests."""
    event_size: int = 60
    """m."""
    equalities: float = 0.4
    """θ1; the other tests are half <= and half >=."""
    values: int = 50
    """The paper's sigma: values are 1 to this."""
    skew: float = 0.0
    """Zipf's exponent, of attributes and of values, in subscriptions and in events."""
    events: int = 400
    seed: int = 1

    def having(self, **changed: Any) -> SparseTests:
        """Returns the same with other parameters."""
        return replace(self, **changed)


def generate_sparse(setting: SparseTests) -> Workload:
    """Returns the same arrays for the same setting, on every machine."""
    rng = np.random.default_rng(setting.seed)
    offsets, attribute = _chosen(rng, setting.subscriptions, setting.dimensions, setting.largest, setting.skew)
    draw, operand = rng.random(len(attribute)), _values(rng, setting, len(attribute))
    upper = (draw >= setting.equalities) & (draw < (1 + setting.equalities) / 2)
    lower = draw >= (1 + setting.equalities) / 2
    low = np.where(upper, 1, operand).astype(np.int32)
    high = np.where(lower, setting.values, operand).astype(np.int32)
    size = min(setting.event_size, setting.dimensions)
    carried = distinct_in_rows(rng, setting.dimensions, (setting.events, size), setting.skew)
    values = _values(rng, setting, carried.size)
    return _workload("sparse", setting.dimensions, offsets, attribute, low, high, carried, values)


def keywords(
    subscriptions: int = 1_000_000,
    words: float = 5.4,
    *,
    intervals: bool = False,
    events: int = 400,
    seed: int = 1,
) -> Workload:
    """Generates search queries as subscriptions and documents as events (section 7.4): 5.4 words a document for Twitter, 123 for
    Wikipedia. A word is an attribute, its value is how often it occurs; a query requires one occurrence, or with `intervals` a range of
    counts."""
    rng = np.random.default_rng(seed)
    lengths = rng.choice(len(QUERY_LENGTHS), subscriptions, p=QUERY_LENGTHS) + 1
    drawn = distinct_in_rows(rng, KEYWORDS, (subscriptions, len(QUERY_LENGTHS)), 1.0)
    attribute = drawn[np.arange(len(QUERY_LENGTHS)) < lengths[:, None]]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    low = np.ones(len(attribute), np.int32)
    high = low.copy()
    if intervals:
        low += rng.integers(0, 3, len(low)).astype(np.int32)
        high = low + rng.integers(1, 8, len(low)).astype(np.int32)
    sizes = np.clip(rng.poisson(words, events), 1, 400)
    rows = distinct_in_rows(rng, KEYWORDS, (events, int(sizes.max())), 1.0)
    counts = rng.geometric(0.6, rows.shape) if intervals else np.ones(rows.shape, np.int64)
    kept = np.arange(rows.shape[1]) < sizes[:, None]
    return _workload("keywords", KEYWORDS, offsets, attribute, low, high, rows, counts.ravel(), kept)


def products(subscriptions: int = 1_000_000, largest: int = 8, *, events: int = 400, seed: int = 1) -> Workload:
    """Generates filters on product attributes as subscriptions, and products as events (section 7.5). The attributes of products follow
    Zipf's law, those of subscriptions the logarithm of it, as in the paper. Values are 1 … 50, by Zipf's law; all tests are equalities.
    `product_sets` has the same with sets."""
    rng = np.random.default_rng(seed)
    frequency = 1e6 / np.arange(1, PRODUCT_ATTRIBUTES + 1)
    share = np.cumsum(np.log(frequency) / np.log(frequency).sum())
    sizes = rng.integers(1, largest + 1, subscriptions)
    drawn = np.searchsorted(share / share[-1], rng.random((subscriptions, largest)), side="right")
    while len(rows := np.flatnonzero(_repeats(drawn))):
        drawn[rows] = np.searchsorted(share / share[-1], rng.random((len(rows), largest)), side="right")
    attribute = drawn[np.arange(largest) < sizes[:, None]]
    low = zipf_ranks(rng, 50, len(attribute), 1.0).astype(np.int32) + 1
    carried = distinct_in_rows(rng, PRODUCT_ATTRIBUTES, (events, 15), 0.7)
    values = zipf_ranks(rng, 50, carried.size, 1.0) + 1
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return _workload("products", PRODUCT_ATTRIBUTES, offsets, attribute, low, low.copy(), carried, values)


def _chosen(
    rng: np.random.Generator, count: int, dimensions: int, largest: int, skew: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    sizes = rng.integers(1, largest + 1, count)
    drawn = distinct_in_rows(rng, dimensions, (count, largest), skew)
    return np.concatenate([[0], np.cumsum(sizes)]), drawn[np.arange(largest) < sizes[:, None]]


def _values(rng: np.random.Generator, setting: SparseTests, count: int) -> NDArray[np.int32]:
    return (zipf_ranks(rng, setting.values, count, setting.skew) + 1).astype(np.int32)


def _repeats(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    ordered = np.sort(rows, axis=1)
    found: NDArray[np.bool_] = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    return found


def _workload(
    name: str,
    dimensions: int,
    offsets: NDArray[np.int64],
    attribute: NDArray[np.int64],
    low: NDArray[np.int32],
    high: NDArray[np.int32],
    carried: NDArray[np.int64],
    values: NDArray[Any],
    kept: NDArray[np.bool_] | None = None,
) -> Workload:
    """`kept`: which cells of the events exist; None: all."""
    there = np.ones(carried.shape, bool) if kept is None else kept
    event_offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int64)
    event_value = values.astype(np.int32)[there.ravel()]
    event_attribute = carried[there].astype(np.int32)
    clauses = (offsets.astype(np.int64), attribute.astype(np.int32), low, high)
    return Workload(name, dimensions, *clauses, event_offsets, event_attribute, event_value)
