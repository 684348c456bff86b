"""The distributions of the papers' generators: positions from 0 to 1, drawn from a seed, in columns."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Distribution", "distinct_in_rows", "positions", "zipf_ranks"]

Distribution = Literal["uniform", "zipf", "normal", "pareto", "mixed"]

ZIPF = 1.0
"""DEXIN section 4.1.4 names no exponent; this is the usual one."""
RANKS = 10_000
NORMAL_MEAN, NORMAL_VARIANCE = 0.5, 0.02
"""REIN section V.B.4."""
PARETO_SHAPE, PARETO_LEAST = 2.0, 0.25
"""REIN section V.B.4 says mean 0.5 and "scale" 2: a Pareto distribution of shape 2 has that mean if its least value is 0.25."""


def positions(rng: np.random.Generator, distribution: Distribution, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Returns numbers in [0, 1). Values outside are drawn again, so that they do not accumulate at the ends. "mixed": uniform or Zipf,
    drawn for each column (DEXIN section 4.3)."""
    if distribution == "mixed":
        return np.where(rng.random(shape[-1]) < 0.5, positions(rng, "uniform", shape), positions(rng, "zipf", shape))
    if distribution == "uniform":
        return rng.random(shape)
    if distribution == "zipf":
        return (zipf_ranks(rng, RANKS, shape, ZIPF) + rng.random(shape)) / RANKS
    drawn = np.full(int(np.prod(shape)), -1.0)
    while len(outside := np.flatnonzero((drawn < 0) | (drawn >= 1))):
        if distribution == "normal":
            drawn[outside] = rng.normal(NORMAL_MEAN, NORMAL_VARIANCE**0.5, len(outside))
        else:
            drawn[outside] = PARETO_LEAST * (1 + rng.pareto(PARETO_SHAPE, len(outside)))
    return drawn.reshape(shape)


def zipf_ranks(
    rng: np.random.Generator, values: int, shape: tuple[int, ...] | int, exponent: float
) -> NDArray[np.int64]:
    """Returns ranks 0 … values - 1, rank r with a weight of 1 / (r + 1) ** exponent; with an exponent of 0 all are equally likely."""
    if exponent == 0:
        return rng.integers(0, values, shape)
    share = np.cumsum(1 / np.arange(1, values + 1) ** exponent)
    found = np.searchsorted(share / share[-1], rng.random(shape), side="right")
    return np.minimum(found, values - 1)


def distinct_in_rows(
    rng: np.random.Generator, values: int, shape: tuple[int, int], exponent: float
) -> NDArray[np.int64]:
    """Returns rows of distinct ranks: a rank that repeats an earlier one of its row is drawn again."""
    assert shape[1] <= values, "a row cannot have more distinct values than there are"
    if shape[1] * 4 > values:  # drawing again would take long: order all by keys that favour heavy ranks
        weight = 1 / np.arange(1, values + 1) ** exponent
        keys = rng.exponential(1.0, (shape[0], values)) / weight
        return np.argpartition(keys, shape[1] - 1, axis=1)[:, : shape[1]]
    drawn = zipf_ranks(rng, values, shape, exponent)
    rows = np.arange(shape[0])
    while len(rows):
        part = drawn[rows]
        order = np.argsort(part, axis=1, kind="stable")
        ordered = np.take_along_axis(part, order, axis=1)
        again = np.zeros(part.shape, bool)
        np.put_along_axis(again, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
        part[again] = zipf_ranks(rng, values, int(again.sum()), exponent)
        drawn[rows] = part
        rows = rows[again.any(axis=1)]
    return drawn
