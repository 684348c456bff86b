"""The names of the levels, lowest first, and their numbers. An event that no rule matches has number 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import SettingError, UnknownLevelError

__all__ = ["MOST_LEVELS", "Levels"]

MOST_LEVELS = 64
"""A set of levels is one word of 64 bits."""


class Levels:
    """Level names ↔ numbers."""

    def __init__(self, names: Sequence[str]) -> None:
        if isinstance(names, str) or not isinstance(names, Sequence) or not names:
            raise SettingError("levels", f"must be a list of names, lowest first, not {names!r}")
        for name in names:
            if not isinstance(name, str) or not name:
                raise SettingError("levels", f"a level's name is a str of at least one character, not {name!r}")
        self.names = tuple(names)
        self._number = {name: number for number, name in enumerate(self.names)}
        if len(self._number) < len(self.names):
            repeated = next(name for name in self.names if self.names.count(name) > 1)
            raise SettingError("levels", f"{repeated!r} occurs twice; every level needs its own name")
        if not 2 <= len(self.names) <= MOST_LEVELS:
            raise SettingError("levels", f"must be 2 to {MOST_LEVELS} names, not {len(self.names)}")
        self._texts = np.array(self.names, dtype=object)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def default(self) -> str:
        return self.names[0]

    def number(self, name: object) -> int:
        """Returns the number of a level; raises UnknownLevelError."""
        number = self._number.get(name) if isinstance(name, str) else None
        if number is None:
            raise UnknownLevelError(name, self.names)
        return number

    def texts(self, numbers: NDArray[np.uint8]) -> list[str]:
        """Returns the names of many levels."""
        found: list[str] = self._texts[numbers].tolist()
        return found
