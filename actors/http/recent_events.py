"""The last events that came by HTTP, for back-tests of draft expressions. They are in memory only, and bounded."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from ray_pubsub import MatchIndex

__all__ = ["Backtest", "RecentEvents", "backtest"]

MOST_BYTES = 8 << 20
SHOWN = 20


class RecentEvents:
    """Events as lines of JSON, newest last."""

    def __init__(self, count: int) -> None:
        self._lines: deque[bytes] = deque(maxlen=count)
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, lines: bytes) -> None:
        """Adds events, one document per line; of many only the last ones are kept."""
        most = self._lines.maxlen or 0
        if not most:
            return
        for line in lines.rstrip().rsplit(b"\n", most)[-most:]:
            if len(self._lines) == most:
                self._bytes -= len(self._lines.popleft())
            self._lines.append(line)
            self._bytes += len(line)
        while self._bytes > MOST_BYTES:
            self._bytes -= len(self._lines.popleft())

    def lines(self) -> list[bytes]:
        return list(self._lines)


class Backtest(NamedTuple):
    """The result of a back-test: how often an expression would have matched."""

    events: int
    bad: int
    matches: int
    samples: list[bytes]
    """The newest events that match."""

    def document(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "bad_events": self.bad,
            "matches": self.matches,
            "samples": [sample.decode(errors="replace") for sample in self.samples],
        }


def backtest(expression: str, lines: list[bytes], ignore_case: bool = False) -> Backtest:
    """Matches an expression against events with the scan, which needs no building for a single expression. Raises ExpressionError."""
    index = MatchIndex("scan", ignore_case=ignore_case)
    index.add(0, expression)
    found = index.match_json(lines)
    counts = found.counts()
    matching = [line for line, count in zip(lines, counts.tolist(), strict=True) if count]
    return Backtest(len(lines), len(found.errors), len(matching), matching[: -SHOWN - 1 : -1])
