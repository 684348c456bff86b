"""Reads the options of format("ray_pubsub")."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import TypeVar

from ray_pubsub.errors import SettingError
from spark_bridge.matching import TIMEOUT
from spark_bridge.worker_server import ServerPlace, server_place

__all__ = ["SourceOptions"]

Number = TypeVar("Number", int, float)
KNOWN = (
    "server", "address", "timeout", "patience", "event_id", "columns", "errors", "strict", "batch_rows", "max_in_flight", "subscriber",
    "max_rows",
)  # fmt: skip


class SourceOptions:
    """The options of a source or sink. Names are compared without case and underscores: event_id is eventId. Spark adds options of its
    own; a misspelt option of ours is reported."""

    def __init__(self, given: Mapping[str, str]) -> None:
        known = {_plain(name): name for name in KNOWN}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            if _plain(name) in known:
                self._values[known[_plain(name)]] = value
            elif close := difflib.get_close_matches(_plain(name), known, 1, 0.8):
                raise SettingError(name, f"there is no such option of ray_pubsub; is {known[close[0]]} meant?")

    def text(self, name: str, otherwise: str | None = None) -> str | None:
        return self._values.get(name, otherwise)

    def names(self, name: str) -> list[str] | None:
        """Returns column names, which are separated by commas."""
        value = self._values.get(name)
        return None if value is None else [each.strip() for each in value.split(",") if each.strip()]

    def whole(self, name: str, otherwise: int) -> int:
        return self._number(name, otherwise, int, "a whole number")

    def flag(self, name: str, otherwise: bool) -> bool:
        value = self._values.get(name, str(otherwise)).lower()
        if value not in ("true", "false"):
            raise SettingError(name, f"true or false, not {value!r}")
        return value == "true"

    def seconds(self, name: str, otherwise: float) -> float:
        return self._number(name, otherwise, float, "a number of seconds")

    def place(self) -> ServerPlace:
        return server_place(self.text("server", "default"), self.text("address"), self.seconds("timeout", TIMEOUT))

    def _number(self, name: str, otherwise: Number, read: Callable[[str], Number], what: str) -> Number:
        value = self._values.get(name)
        try:
            return otherwise if value is None else read(value)
        except ValueError:
            raise SettingError(name, f"must be {what}, not {value!r}") from None


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
