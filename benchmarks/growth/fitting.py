"""Fits curves to measurements: how a cost grows with a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["EXTRAPOLATED", "FITS", "STEEPEST", "Fit", "fit_axis", "fit_power"]

EXTRAPOLATED = ("dense-n", "sparse-n")

EXPONENTS = np.linspace(-2.0, 2.0, 401)
FITS = 0.5
"""A curve whose largest error exceeds this is no power of the size."""
STEEPEST = 1.1
"""Of curves over subscriptions, which the model extrapolates: no part of the work is done more than once for each, and the rest is what the
caches no longer hold. Without this bound a bend between two sizes becomes an exponent of 1.5."""


class Fit(NamedTuple):
    """cost = constant + factor * size ** exponent."""

    constant: float
    factor: float
    exponent: float
    error: float
    """The largest relative deviation at the points it was fitted to."""

    def at(self, size: float) -> float:
        return float(self.constant + self.factor * size**self.exponent)

    @property
    def holds(self) -> bool:
        return self.error <= FITS

    def __str__(self) -> str:
        return f"{self.constant:.3g} + {self.factor:.3g} · n^{self.exponent:.2f}" if self.holds else "no power of n"


def fit_axis(name: str, sizes: Sequence[float], costs: Sequence[float]) -> Fit:
    """The fit over an axis: over subscriptions costs only grow, and what is fitted there is extrapolated."""
    return fit_power(sizes, costs, STEEPEST) if name in EXTRAPOLATED else fit_power(sizes, costs, 2.0, -2.0)


def fit_power(sizes: Sequence[float], costs: Sequence[float], steepest: float = 2.0, flattest: float = 0.0) -> Fit:
    """Returns the fit with the least relative squares over all exponents from `flattest` to `steepest`, constant and factor not negative.
    With two points there is no constant."""
    x, y = np.asarray(sizes, float), np.asarray(costs, float)
    best: Fit | None = None
    least = np.inf
    for exponent in EXPONENTS[(flattest - 1e-9 <= EXPONENTS) & (steepest + 1e-9 >= EXPONENTS)]:
        power = x**exponent
        flat = abs(exponent) < 1e-9
        columns = np.stack([np.ones_like(x), power], axis=1) if len(x) > 2 and not flat else power[:, None]
        found, *_ = np.linalg.lstsq(columns / y[:, None], np.ones_like(y), rcond=None)
        if (found < 0).any():  # growth without a constant
            found, *_ = np.linalg.lstsq((power / y)[:, None], np.ones_like(y), rcond=None)
        constant, factor = (float(found[0]), float(found[1])) if len(found) == 2 else (0.0, float(found[0]))
        deviation = (constant + factor * power) / y - 1
        if (squares := float((deviation**2).sum())) < least:
            least = squares
            best = Fit(constant, factor, float(exponent), float(np.abs(deviation).max()))
    assert best is not None
    return best
