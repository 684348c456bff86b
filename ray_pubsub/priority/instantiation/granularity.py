"""Chooses the bins: for each attribute the edges that rules could use, for each signature vector as many of them as its budget allows.

The number of a vector's signatures is the product of its bins, which is bounded. Attributes with few distinct operands keep every bin
they need; the others share what is left, cut at the quantiles of their operands. Values that no rule of the vector admits are one bin,
number 0, "the rest": the paper's "other" for discrete attributes, and everything below, above and between for continuous ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.test_records import Form, Side
from ray_pubsub.columns.vocabulary import Names
from ray_pubsub.language.value_set import ValueSet
from ray_pubsub.model.event_batch import split_number
from ray_pubsub.model.values import Kind
from ray_pubsub.priority.discretizer import (
    MOST_BINS,
    Bins,
    Categories,
    Discretizer,
    Function,
    Quantiles,
    Steps,
    given_cuts,
)
from ray_pubsub.priority.instantiation.bins import FunctionBins, NumberEdges, OrderedBins

__all__ = ["candidate_bins", "exact_groups", "quantile_groups", "within_budget"]

BOUNDS = (("low_side", "low_whole", "low_rest"), ("high_side", "high_whole", "high_rest"))


def candidate_bins(
    tests: Any, opaque: Iterable[ValueSet], strings: Names, discretizer: Discretizer | None
) -> OrderedBins | FunctionBins:
    """Returns the bins of one attribute: cut at the operands of its tests (into at most MOST_BINS), or by its discretizer."""
    if isinstance(discretizer, Function):
        return FunctionBins(discretizer)
    if isinstance(discretizer, Bins | Categories):
        kind, cuts = given_cuts(discretizer)
        if kind == Kind.STRING:
            return OrderedBins({}, [(cut[1], cut[2]) for cut in cuts])
        return OrderedBins({kind: _edges([(*split_number(cut[1]), cut[2]) for cut in cuts])}, [])
    extra: dict[Kind, list[tuple[int, float, int]]] = {}
    texts: Counter[tuple[str, int]] = Counter()
    for allowed in opaque:
        for kind in Kind:
            for cut in allowed.cuts(kind):
                if len(cut) == 3:
                    if kind == Kind.STRING:
                        texts[cut[1], cut[2]] += 1
                    else:
                        extra.setdefault(kind, []).append((*split_number(cut[1]), cut[2]))
    is_interval = tests["form"] == Form.INTERVAL
    kinds = tests["kind"]
    for number in np.unique(tests["low_whole"][is_interval & (kinds == Kind.STRING)]).tolist():
        texts[strings.texts[number], 0] += 1
        texts[strings.texts[number], 1] += 1
    numbers: dict[Kind, NumberEdges] = {}
    for kind in (Kind.NUMBER, Kind.BOOLEAN, Kind.TIMESTAMP):
        parts = [_edges(extra.get(kind, []))]
        for side, whole, rest in BOUNDS:
            chosen = np.flatnonzero(is_interval & (kinds == kind) & (tests[side] != Side.NONE))
            parts.append((tests[whole][chosen], tests[rest][chosen], tests[side][chosen]))
        joined = tuple(np.concatenate([part[field] for part in parts]) for field in range(3))
        if isinstance(discretizer, Steps) and kind == Kind.NUMBER:
            numbers[kind] = _stepped(discretizer, *joined[:2])
        else:
            numbers[kind] = _distinct(*joined)
    ordered = sorted(texts)
    return OrderedBins(numbers, [ordered[place] for place in _spread(np.array([texts[edge] for edge in ordered]))])


def _edges(edges: list[tuple[int, float, int]]) -> NumberEdges:
    whole, rest, side = ([edge[field] for edge in edges] for field in range(3))
    return np.array(whole, dtype=np.int64), np.array(rest, dtype=np.float64), np.array(side, dtype=np.uint8)


def _distinct(whole: Any, rest: Any, side: Any) -> NumberEdges:
    order = np.lexsort((side, rest, whole))
    whole, rest, side = whole[order], rest[order] + 0.0, side[order].astype(np.uint8)
    fresh = np.ones(len(whole), dtype=bool)
    fresh[1:] = (whole[1:] != whole[:-1]) | (rest[1:] != rest[:-1]) | (side[1:] != side[:-1])
    begins = np.flatnonzero(fresh)
    chosen = begins[_spread(np.diff(np.append(begins, len(whole))))]
    return whole[chosen], rest[chosen], side[chosen]


def _spread(weights: NDArray[np.int64], most: int = MOST_BINS // 4) -> NDArray[np.int64]:
    """Returns all places if they are few, else about `most` of them at the quantiles of their weights."""
    if len(weights) <= most:
        return np.arange(len(weights))
    reached = np.cumsum(weights)
    return np.unique(np.searchsorted(reached, np.linspace(0, reached[-1], most, endpoint=False), side="right"))


def _stepped(steps: Steps, whole: Any, rest: Any) -> NumberEdges:
    """Returns edges at origin + n · width from below the least operand to above the largest."""
    values = np.where(np.abs(rest) >= 2.0**63, rest, whole + rest)
    values = values[np.isfinite(values)]
    if not len(values):
        return _edges([])
    first = math.floor((float(values.min()) - steps.origin) / steps.width)
    last = math.ceil((float(values.max()) - steps.origin) / steps.width)
    stride = max(1, math.ceil((last - first + 1) / (MOST_BINS // 4)))
    found = [steps.origin + number * steps.width for number in range(first, last + 1, stride)]
    return _edges(sorted({(*split_number(value), 0) for value in found}))


def exact_groups(size: int, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> NDArray[np.int32]:
    """Returns the group of each bin such that every range is a union of groups: 1, 2, … in order, and 0 for bins in no range."""
    depth = np.bincount(lows, minlength=size + 1) - np.bincount(highs + 1, minlength=size + 1)
    admitted = np.cumsum(depth)[:size] > 0
    bounded = np.zeros(size + 1, dtype=bool)
    bounded[lows] = True
    bounded[highs + 1] = True
    begins = admitted & (bounded[:size] | ~np.concatenate([[False], admitted[:-1]]))
    return np.where(admitted, np.cumsum(begins), 0).astype(np.int32)


def quantile_groups(size: int, lows: NDArray[np.int64], highs: NDArray[np.int64], most: int) -> NDArray[np.int32]:
    """Returns the group of each bin, with at most `most` groups that have about equally many bounds each. No bin between the least and
    the largest bin of all ranges belongs to the rest, because bounds of later rules are likely to lie there."""
    weights = np.bincount(lows, minlength=size + 1) + np.bincount(highs + 1, minlength=size + 1)
    first, last = int(lows.min()), int(highs.max())
    reached = np.cumsum(weights[first : last + 1])
    rank = (reached - reached[0]) * most // max(1, int(reached[-1] - reached[0]) + 1)
    groups = np.zeros(size, dtype=np.int32)
    groups[first : last + 1] = np.cumsum(np.concatenate([[1], np.diff(rank) > 0]))
    return groups


def within_budget(needed: list[int], caps: list[int], budget: int) -> list[int]:
    """Returns how many groups each attribute gets, the rest not counted: all it needs, or an equal share of what the others leave."""
    wanted = [min(need, cap) for need, cap in zip(needed, caps, strict=True)]
    low, high = 1, max([1, *wanted])
    while low < high:
        middle = (low + high + 1) // 2
        if math.prod(min(want, middle) + 1 for want in wanted) <= budget:
            low = middle
        else:
            high = middle - 1
    return [min(want, low) for want in wanted]


def most_bins(discretizer: Discretizer | None) -> int:
    return discretizer.bins if isinstance(discretizer, Quantiles) else MOST_BINS
