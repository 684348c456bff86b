"""The levels of a queue, lowest first as in priority rules, and settings that have a value for each level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ray_pubsub.errors import SettingError

__all__ = ["PerLevel", "level_names", "per_level"]

Value = TypeVar("Value")
PerLevel = Mapping[str, Value] | Sequence[Value]
"""Values by level name, where levels that are left out have the default; or a list with a value for every level, lowest first."""


def level_names(levels: Sequence[str]) -> tuple[str, ...]:
    in_order = isinstance(levels, Sequence) and not isinstance(levels, str)
    if not in_order or not levels or not all(isinstance(name, str) and name for name in levels):
        raise SettingError("levels", f"must be a list of names, lowest first, not {levels!r}")
    if len(set(levels)) < len(levels):
        raise SettingError("levels", f"must differ from each other: {list(levels)!r}")
    return tuple(levels)


def per_level(
    setting: str,
    values: PerLevel[Value] | None,
    levels: tuple[str, ...],
    default: Value,
    checked: Callable[[str, Value], Value],
) -> tuple[Value, ...]:
    """Returns the setting's value for every level. `checked` returns a value or refuses it."""
    if values is None:
        return (default,) * len(levels)
    if isinstance(values, Mapping):
        unknown = [name for name in values if name not in levels]
        if unknown:
            raise SettingError(setting, f"there is no level {unknown[0]!r}; the levels are {', '.join(levels)}")
        return tuple(checked(setting, values[name]) if name in values else default for name in levels)
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != len(levels):
        raise SettingError(
            setting, f"must be a value for each of the {len(levels)} levels, lowest first, not {values!r}"
        )
    return tuple(checked(setting, value) for value in values)
