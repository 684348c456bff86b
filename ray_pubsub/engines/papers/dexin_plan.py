"""DEXIN's planning (sections 3.4.2 and 3.5): which attributes come first, and by which method. Arrays only, no index.

A plan is made for many events at once: every array has a row per event and a column per attribute.

Formulas (1) to (6) count clauses looked at, as a part of all clauses. Two things are wider than in the paper, whose clauses constrain every
attribute and whose exclusive method always walks all it removes:

- `shares`: the part of the clauses that test an attribute. The inclusive method looks at a clause's own tests only, so formula (5) is
  multiplied by it. For the paper's clauses it is 1.
- `costs`: of the exclusive method. By formula (4) that is 1 - rate, which takes removing a clause from the partial result to be as slow as
  checking one. In a bit set it is CHECK times faster, once the list is found (`removal_costs`), and with caches it does not depend on the
  rate (`cached_cost`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Plan", "cached_cost", "first_fit", "published_plan", "removal_costs"]

Floats = NDArray[np.float64]

CHECK = 40.0
"""Time of checking one clause in the inclusive method, in removals or flips of a bit (0.5 ns); its tests come from memory. On W1 with
a million clauses no value from 12 to 100 stood out of the noise with caches; without, 4 took twice as long as 40."""
SETUP = 800.0
"""Time of finding the value's places in the lists of one attribute and block, in the same: some cache misses, 0.4 µs. Only many attributes
that few clauses test feel it."""
PASS = 1.0
"""Time of ANDing one word of a cached bit set, in the same; it comes from memory too, but in order."""


class Plan(NamedTuple):
    """Vectors Q and D of Algorithm 3: per event the attributes in their order, and how many of the first use the exclusive method
    (Observation 2: the others all come after them)."""

    order: NDArray[np.int64]
    exclusive: NDArray[np.int64]


def removal_costs(rates: Floats, clauses: int) -> Floats:
    """Returns the cost of the exclusive method by removals in a block of this many clauses: formula (4) in units of one check."""
    return (1 - rates + SETUP / max(1, clauses)) / CHECK


def cached_cost(stride: float, clauses: int) -> float:
    """Returns the cost of the exclusive method with caches `stride` boundaries apart: the nearest is a quarter of that away on average.
    One pass over the bit set is added."""
    return (SETUP + stride / 4 + PASS * clauses / 64) / (CHECK * max(1, clauses))


def first_fit(rates: Floats, costs: Floats, shares: Floats) -> Plan:
    """Algorithm 4, Low-Matching-Rate-First-Fit: sorts attributes by ascending matching rate. The first uses the exclusive method, and so
    do the next ones while checking the clauses that are left (ε, accumulated) by the inclusive method would cost more."""
    order = np.argsort(rates, axis=1, kind="stable")
    left = np.cumprod(np.take_along_axis(rates, order, axis=1), axis=1)[:, :-1]
    later = order[:, 1:]
    worth = left * np.take_along_axis(shares, later, axis=1) > np.take_along_axis(costs, later, axis=1)
    exclusive = min(1, rates.shape[1]) + np.cumprod(worth, axis=1, dtype=np.int64).sum(axis=1)
    return Plan(order, exclusive)


def published_plan(rates: Floats) -> Plan:
    """Algorithm 4 with the paper's own costs: formula (4) for the exclusive method, formula (5) for the inclusive one. The printed
    formula (3) can give a negative rate where the value's slot holds many bounds; it counts as 0."""
    known = np.maximum(rates, 0.0)
    return first_fit(known, 1 - known, np.ones_like(known))
