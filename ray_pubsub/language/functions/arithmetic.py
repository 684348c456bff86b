"""Arithmetic of terms. Integers stay exact; a result that does not fit is unknown (None).

A whole number within 64 bits is an integer, however it was written: 5.0 is 5. Sums, differences and products of integers are exact, or
unknown if they do not fit into 64 bits. Everything else is computed in float64, like SQL's double: division, and whatever has a fraction.
Division by zero is unknown, and so is an infinite result of finite operands.
"""

from __future__ import annotations

import math

from ray_pubsub.model.values import INT64_MAX, INT64_MIN

__all__ = [
    "Number",
    "absolute",
    "add",
    "ceiling",
    "divide",
    "floor",
    "multiply",
    "negate",
    "plain_number",
    "remainder",
    "round_half_away",
    "subtract",
]

Number = int | float


def plain_number(number: Number) -> Number | None:
    """Returns the number in its canonical form: an integer if it is whole and fits into 64 bits. None for NaN."""
    if isinstance(number, int):
        return number if INT64_MIN <= number <= INT64_MAX else None
    if number != number:
        return None
    return int(number) if -(2.0**63) <= number < 2.0**63 and number == math.trunc(number) else number


def _finite(result: float, *given: Number) -> Number | None:
    if math.isinf(result) and not any(math.isinf(each) for each in given):
        return None
    return plain_number(result)


def add(left: Number, right: Number) -> Number | None:
    if isinstance(left, int) and isinstance(right, int):
        return plain_number(left + right)
    return _finite(float(left) + float(right), left, right)


def subtract(left: Number, right: Number) -> Number | None:
    if isinstance(left, int) and isinstance(right, int):
        return plain_number(left - right)
    return _finite(float(left) - float(right), left, right)


def multiply(left: Number, right: Number) -> Number | None:
    if isinstance(left, int) and isinstance(right, int):
        return plain_number(left * right)
    return _finite(float(left) * float(right), left, right)


def divide(left: Number, right: Number) -> Number | None:
    if right == 0 or (math.isinf(left) and math.isinf(right)):
        return None
    try:
        return _finite(float(left) / float(right), left, right)
    except OverflowError:
        return None


def remainder(left: Number, right: Number) -> Number | None:
    """Returns the remainder of integer division towards zero: it has the sign of the left side."""
    if right == 0 or math.isinf(left):
        return None
    if isinstance(left, int) and isinstance(right, int):
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    return plain_number(math.fmod(left, right))


def negate(number: Number) -> Number | None:
    return plain_number(-number)


def absolute(number: Number) -> Number | None:
    return plain_number(abs(number))


def floor(number: Number) -> Number | None:
    return number if isinstance(number, int) or math.isinf(number) else plain_number(float(math.floor(number)))


def ceiling(number: Number) -> Number | None:
    return number if isinstance(number, int) or math.isinf(number) else plain_number(float(math.ceil(number)))


def round_half_away(number: Number, digits: Number = 0) -> Number | None:
    """Rounds halves away from zero, to `digits` after the point, or before it if negative; computed in float64 as DuckDB does."""
    if not isinstance(digits, int):
        return None
    if isinstance(number, int):
        return number if digits >= 0 else _round_integer(number, -digits)
    if math.isinf(number):
        return number
    if abs(digits) > 308:
        return number if digits > 0 else 0
    power = 10.0 ** abs(digits)
    scaled = number * power if digits >= 0 else number / power
    if math.isinf(scaled):
        return number
    rounded = _round(scaled)
    return plain_number(rounded / power if digits >= 0 else rounded * power)


def _round(number: float) -> float:
    whole = float(math.floor(abs(number)))
    if abs(number) - whole >= 0.5:
        whole += 1
    return math.copysign(whole, number)


def _round_integer(number: int, digits: int) -> int | None:
    if digits > 19:
        return 0
    power = 10**digits
    rounded = (abs(number) + power // 2) // power * power
    return plain_number(-rounded if number < 0 else rounded)  # type: ignore[return-value]
