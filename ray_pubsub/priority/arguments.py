"""What users hand over, checked: a SettingError names the argument and says what it must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray_pubsub.errors import SettingError
from ray_pubsub.priority.discretizer import Bins, Categories, Discretizer, Function, Quantiles, Steps

__all__ = ["checked_count", "checked_discretizers", "checked_rate"]


def checked_rate(rate: Any) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 1e-6 <= rate <= 0.9:
        raise SettingError("false_positive_rate", f"must be a number from 0.000001 to 0.9, not {rate!r}")
    return float(rate)


def checked_count(setting: str, count: Any, least: int, most: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not least <= count <= most:
        raise SettingError(setting, f"must be a whole number from {least:,} to {most:,}, not {count!r}")
    return count


def checked_discretizers(discretizers: Any) -> dict[str, Discretizer]:
    if discretizers is not None and not isinstance(discretizers, Mapping):
        raise SettingError("discretizers", f"must be a dict of attribute → discretizer, not {discretizers!r}")
    found = dict(discretizers or {})
    for attribute, discretizer in found.items():
        if not isinstance(attribute, str):
            raise SettingError("discretizers", f"an attribute's name is a str, not {attribute!r}")
        if not isinstance(discretizer, Quantiles | Bins | Steps | Categories | Function):
            raise SettingError(
                "discretizers",
                f"{attribute!r}: must be Quantiles, Bins, Steps, Categories or Function, not {discretizer!r}",
            )
    return found
