"""Discretizers: how a user can define the bins of an attribute, instead of deriving them from the operands of the rules.

Without a discretizer, an attribute is cut at all operands of its rules while they fit the budget, else at their quantiles; a discrete
attribute thus gets a bin per category and one for everything else. No choice of bins can miss a rule: a rule covers every bin that
contains a value it admits. Bins that do not end where the rules' intervals end only cause false positives.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ray_pubsub.errors import SettingError
from ray_pubsub.language.value_set import Cut
from ray_pubsub.model.arguments import check_whole
from ray_pubsub.model.values import Kind, ValueProblem, read_value

__all__ = [
    "MOST_BINS",
    "Bins",
    "Categories",
    "Discretizer",
    "Function",
    "Quantiles",
    "Steps",
    "checked_discretizers",
    "given_cuts",
]

MOST_BINS = 16_384
"""The largest number of bins of one attribute."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The default, with a granularity: at most `bins` bins, cut at the quantiles of the rules' operands."""

    bins: int = MOST_BINS

    def __post_init__(self) -> None:
        check_whole("Quantiles.bins", self.bins, 1, MOST_BINS)


@dataclass(frozen=True, init=False, slots=True)
class Bins:
    """Bins between these edges (numbers, strings or times of one kind); an edge belongs to the bin above it."""

    edges: tuple[Any, ...]

    def __init__(self, edges: Sequence[Any]) -> None:
        _check_values("Bins", edges)
        object.__setattr__(self, "edges", tuple(edges))


@dataclass(frozen=True, slots=True)
class Steps:
    """Bins of equal width, edges at origin + n · width, as far as the rules' operands reach. For numbers."""

    width: float
    origin: float = 0

    def __post_init__(self) -> None:
        for name in ("width", "origin"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
                raise SettingError(f"Steps.{name}", f"must be a number below 2**53, not {value!r}")
        if self.width <= 0:
            raise SettingError("Steps.width", f"must be positive, not {self.width!r}")


@dataclass(frozen=True, init=False, slots=True)
class Categories:
    """A bin for each of these values, and bins for the other values between them."""

    values: tuple[Any, ...]

    def __init__(self, values: Sequence[Any]) -> None:
        _check_values("Categories", values)
        object.__setattr__(self, "values", tuple(values))


@dataclass(frozen=True, slots=True)
class Function:
    """A function of yours: value → bin number from 0 to bins - 1, the same for equal values, at any time and in any process.

    It gets a number, str or bool, and for a timestamp its microseconds since 1970. With `monotone=True` you promise that, within a kind,
    a larger value never gets a smaller bin; then rules with intervals can be instantiated. Otherwise only rules that name single values
    can be (the function is called with those), and the others are matched exactly. If the function raises an error or returns anything
    else, the value goes to a separate bin.
    """

    function: Callable[[Any], int]
    bins: int
    monotone: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise SettingError("Function.function", f"must be callable, not {self.function!r}")
        check_whole("Function.bins", self.bins, 1, MOST_BINS)


Discretizer = Quantiles | Bins | Steps | Categories | Function


def checked_discretizers(discretizers: Any) -> dict[str, Discretizer]:
    if discretizers is not None and not isinstance(discretizers, Mapping):
        raise SettingError("discretizers", f"must be a dict of attribute → discretizer, not {discretizers!r}")
    found = dict(discretizers or {})
    for attribute, discretizer in found.items():
        if not isinstance(attribute, str):
            raise SettingError("discretizers", f"an attribute's name is a str, not {attribute!r}")
        if not isinstance(discretizer, Discretizer):
            raise SettingError(
                "discretizers",
                f"{attribute!r}: must be Quantiles, Bins, Steps, Categories or Function, not {discretizer!r}",
            )
    return found


def given_cuts(discretizer: Bins | Categories) -> tuple[Kind, list[Cut]]:
    """Returns the kind of the discretizer's values, and its cuts in order."""
    values = discretizer.edges if isinstance(discretizer, Bins) else discretizer.values
    kind, plains = _check_values(type(discretizer).__name__, values)
    sides = (0,) if isinstance(discretizer, Bins) else (0, 1)
    return kind, [(0, plain, side) for plain in sorted(set(plains)) for side in sides]


def _check_values(name: str, values: Any) -> tuple[Kind, list[Any]]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise SettingError(name, f"needs a list of values, not {values!r}")
    if len(values) > MOST_BINS // 2:
        raise SettingError(name, f"at most {MOST_BINS // 2:,} values, not {len(values):,}")
    kinds, plains = set(), []
    for raw in values:
        try:
            value = read_value(raw)
        except ValueProblem as problem:
            raise SettingError(name, str(problem)) from None
        if value is None:
            raise SettingError(name, f"{raw!r} means absent and is no value")
        kinds.add(value.kind)
        plains.append(value.plain)
    if len(kinds) > 1:
        raise SettingError(name, f"the values are of different kinds: {', '.join(sorted(map(str, kinds)))}")
    return kinds.pop(), plains


def described(discretizer: Discretizer) -> list[Any]:
    """Returns what a file stores of a discretizer; of a function only that there was one."""
    match discretizer:
        case Quantiles(bins):
            return ["quantiles", bins]
        case Bins(edges):
            return ["bins", [_packed(edge) for edge in edges]]
        case Steps(width, origin):
            return ["steps", width, origin]
        case Categories(values):
            return ["categories", [_packed(value) for value in values]]
        case Function():
            return ["function"]


def restored(description: list[Any]) -> Discretizer | None:
    """Returns the discretizer that a file describes; None for a function."""
    match description:
        case ["quantiles", bins]:
            return Quantiles(bins)
        case ["bins", edges]:
            return Bins([_unpacked(edge) for edge in edges])
        case ["steps", width, origin]:
            return Steps(width, origin)
        case ["categories", values]:
            return Categories([_unpacked(value) for value in values])
        case _:
            return None


def _packed(raw: Any) -> list[Any]:
    value = read_value(raw)
    assert value is not None
    return [int(value.kind), value.plain]


def _unpacked(pair: list[Any]) -> Any:
    kind, plain = pair
    if kind == Kind.TIMESTAMP:
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=plain)
    return plain
