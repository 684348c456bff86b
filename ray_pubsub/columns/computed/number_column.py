"""Arithmetic on columns of numbers, with the same results as language/functions/arithmetic.py: exact integers where possible, else
float64.

A row has an integer, or a float that is not a 64-bit integer, or nothing. Tests check that both modules agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.event_batch import Lane, split_floats, split_number
from ray_pubsub.model.values import INT64_MIN, Kind

__all__ = ["COLUMN_OPERATIONS", "NumberColumn"]


@dataclass(slots=True, eq=False)
class NumberColumn:
    """Row i has `whole[i]` if `integer[i]`, else `real[i]`; it has no number unless it is `present`. `real` is always set."""

    present: NDArray[np.bool_]
    integer: NDArray[np.bool_]
    whole: NDArray[np.int64]
    real: NDArray[np.float64]

    @classmethod
    def of_lane(cls, lane: Lane | None, size: int) -> NumberColumn:
        present, integer = np.zeros(size, bool), np.ones(size, bool)
        whole, real = np.zeros(size, np.int64), np.zeros(size)
        if lane is not None:
            rows = slice(None) if lane.rows is None else lane.rows
            present[rows] = True
            whole[rows] = lane.whole
            if lane.rest is None:
                real[rows] = lane.whole
            else:
                integer[rows] = lane.rest == 0
                large = np.abs(lane.rest) >= 2.0**63
                real[rows] = np.where(large, lane.rest, lane.whole + lane.rest)
        return cls(present, integer, whole, real)

    @classmethod
    def constant(cls, number: int | float, size: int) -> NumberColumn:
        whole, rest = split_number(number)
        return cls(np.ones(size, bool), np.full(size, rest == 0), np.full(size, whole), np.full(size, float(number)))

    @classmethod
    def of_floats(cls, present: NDArray[np.bool_], values: NDArray[np.float64]) -> NumberColumn:
        """Wraps float64 results: what is not a finite number is absent, what is whole becomes an integer."""
        present = present & ~np.isnan(values)
        values = np.where(present, values, 0.0)
        whole, rest = split_floats(values)
        return cls(present, np.ones(len(values), bool) if rest is None else rest == 0, whole, values)

    def lane(self, name: str) -> Lane | None:
        """Returns the column as the values of an attribute; None if no row has one."""
        rows = np.flatnonzero(self.present)
        if not len(rows):
            return None
        whole, rest = self.whole[rows], None
        fractions = np.flatnonzero(~self.integer[rows])
        if len(fractions):
            whole, rest = whole.copy(), np.zeros(len(rows))
            parts, left = split_floats(self.real[rows[fractions]])
            whole[fractions] = parts
            rest[fractions] = 0.0 if left is None else left
        every = len(rows) == len(self.present)
        return Lane(name, Kind.NUMBER, None if every else rows.astype(np.int32), whole, rest)

    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns (whole, rest), which order all numbers exactly."""
        whole, rest = split_floats(np.where(self.integer, 0.0, self.real))
        return np.where(self.integer, self.whole, whole), np.zeros(len(whole)) if rest is None else rest


def _chosen(exact: NumberColumn, other: NumberColumn, integers: NDArray[np.bool_]) -> NumberColumn:
    return NumberColumn(
        np.where(integers, exact.present, other.present),
        np.where(integers, True, other.integer),
        np.where(integers, exact.whole, other.whole),
        np.where(integers, exact.real, other.real),
    )


def _binary(
    exact: Callable[..., tuple[NDArray[np.int64], NDArray[np.bool_]]] | None,
    inexact: Callable[..., NDArray[np.float64]],
) -> Callable[..., NumberColumn]:
    """`exact` computes integer results and which of them fit into 64 bits. Without it, integers are computed as floats."""

    def compute(left: NumberColumn, right: NumberColumn) -> NumberColumn:
        present = left.present & right.present
        integers = left.integer & right.integer if exact is not None else np.zeros(len(present), bool)
        with np.errstate(all="ignore"):
            floats: NumberColumn | None = None
            if not integers.all():
                values = inexact(left.real, right.real)
                lost = np.isinf(values) & ~np.isinf(left.real) & ~np.isinf(right.real)
                floats = NumberColumn.of_floats(present & ~lost, values)
            if exact is None or not integers.any():
                assert floats is not None or not len(present)
                return floats if floats is not None else NumberColumn.of_floats(present, left.real)
            whole, fits = exact(left.whole, right.whole)
            found = NumberColumn(present & fits, np.ones(len(whole), bool), whole, whole.astype(np.float64))
        return found if floats is None else _chosen(found, floats, integers)

    return compute


def _add(left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    found = left + right
    return found, ((left ^ found) & (right ^ found)) >= 0


def _subtract(left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    found = left - right
    return found, ((left ^ right) & (left ^ found)) >= 0


def _multiply(left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    found = left * right
    near = np.abs(left.astype(np.float64) * right.astype(np.float64))
    fits = near < 2.0**62
    doubtful = ~fits & (near < 2.0**64)
    if doubtful.any():  # too close to the limit for a float to decide
        back = np.where(left == 0, 0, found // np.where(left == 0, 1, left))
        fits |= (
            doubtful
            & (back == right)
            & ~((left == -1) & (right == INT64_MIN))
            & (found % np.where(left == 0, 1, left) == 0)
        )
    return found, fits


def _remainder(left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    return np.fmod(left, np.where((right == 0) | (right == -1), 1, right)), right != 0


def _divide(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(right == 0, np.nan, left / right)


def _fmod(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(right == 0, np.nan, np.fmod(left, right))


def _rounded(rounding: Callable[..., NDArray[np.float64]]) -> Callable[[NumberColumn], NumberColumn]:
    def compute(column: NumberColumn) -> NumberColumn:
        if column.integer.all():
            return column
        return _chosen(column, NumberColumn.of_floats(column.present, rounding(column.real)), column.integer)

    return compute


def _negative(column: NumberColumn) -> NumberColumn:
    fits = ~column.integer | (column.whole != INT64_MIN)
    # Negating the float -(2**63) gives 2**63, which does not fit; every other float that is not an integer stays one.
    turned = NumberColumn.of_floats(column.present, -column.real)
    exact = NumberColumn(column.present & fits, column.integer, -column.whole, -column.real)
    return _chosen(exact, turned, column.integer)


def _absolute(column: NumberColumn) -> NumberColumn:
    negative = _negative(column)
    below = np.where(column.integer, column.whole < 0, column.real < 0)
    return NumberColumn(
        np.where(below, negative.present, column.present),
        np.where(below, negative.integer, column.integer),
        np.where(below, negative.whole, column.whole),
        np.where(below, negative.real, column.real),
    )


COLUMN_OPERATIONS: dict[str, Callable[..., NumberColumn]] = {
    "+": _binary(_add, np.add),
    "-": _binary(_subtract, np.subtract),
    "*": _binary(_multiply, np.multiply),
    "/": _binary(None, _divide),
    "%": _binary(_remainder, _fmod),
    "negative": _negative,
    "abs": _absolute,
    "floor": _rounded(np.floor),
    "ceil": _rounded(np.ceil),
}
"""The functions of the language that can run on columns."""
