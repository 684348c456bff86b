"""Windows of wall-clock time: "1 day", "15 minutes"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.client.deliverable_rows import moments_beyond_calendar
from ray_pubsub.errors import SettingError

__all__ = ["Window"]

UNITS = ("minute", "hour", "day", "week", "month", "quarter", "year")
WINDOW = re.compile(rf"\s*(?:(\d+)\s+)?({'|'.join(UNITS)})s?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Window:
    """A window of `multiple` calendar units, counted from 1970-01-01; weeks begin on Monday."""

    multiple: int
    unit: str

    @classmethod
    def parse(cls, text: str) -> Window:
        found = WINDOW.fullmatch(text) if isinstance(text, str) else None
        multiple = int(found[1] or 1) if found else 0
        if found is None or not 1 <= multiple <= 100_000:
            raise SettingError("window", f"a number and one of {', '.join(UNITS)}, such as '1 day', not {text!r}")
        return cls(multiple, found[2].lower())

    def starts(self, moments: Any) -> Any:
        """Returns the beginning of each naive timestamp's window; null for null, and for years outside 1 to 9999: Python has no such
        moment, and Arrow's calendar ends soon after. The unit is fixed, because Arrow would keep that of the input."""
        moments = pc.cast(moments, pa.timestamp("us"))
        starts = pc.floor_temporal(moments, multiple=self.multiple, unit=self.unit)
        beyond = moments_beyond_calendar(moments) | moments_beyond_calendar(starts)
        return pc.if_else(pa.array(beyond), pa.scalar(None, starts.type), starts) if beyond.any() else starts

    def __str__(self) -> str:
        return self.unit if self.multiple == 1 else f"{self.multiple} {self.unit}s"
