"""Columns as users give them, as lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray_pubsub.errors import SettingError

__all__ = ["listed"]


def listed(name: str, values: Any) -> list[Any]:
    """A list of Python's own objects; one text is not a column of its letters."""
    if isinstance(values, str | bytes | Mapping):
        raise SettingError(name, f"must be a list or a column, not one {type(values).__name__}")
    for as_list in ("to_pylist", "tolist"):  # Arrow's; numpy's and pandas'
        if hasattr(values, as_list):
            return list(getattr(values, as_list)())
    return list(values)
