"""Remembers which patterns recent strings match, for single events: evaluating thousands of patterns on one string takes microseconds, and
a stream repeats hosts, users and paths. (A batch evaluates each distinct string once anyway.)"""

from __future__ import annotations

__all__ = ["LONGEST", "MOST", "CodesOfString", "RememberedStrings"]

MOST, LONGEST = 1024, 512
"""Strings that are remembered for an attribute, and the length up to which they are: half a megabyte of text at most."""
TRIAL, FEWEST_HITS, REST = 1024, 128, 16_384
"""Of every TRIAL strings FEWEST_HITS must have been remembered; otherwise the next REST strings are neither looked up nor kept."""


CodesOfString = tuple[list[int], list[int]]
"""Columns, and the codes in them."""


class RememberedStrings:
    """The patterns that recent strings of one attribute match. Never stale, because the patterns of a block do not change. Several threads
    may use it at once; when one of them loses a count, the decision to rest comes a little later."""

    __slots__ = ("_found", "_hits", "_lookups", "_resting")

    def __init__(self) -> None:
        self._found: dict[str, CodesOfString] = {}
        self._lookups = self._hits = self._resting = 0

    def __len__(self) -> int:
        return len(self._found)

    def get(self, text: str) -> CodesOfString | None:
        if self._resting:
            self._resting -= 1
            return None
        if self._lookups >= TRIAL:
            if self._hits < FEWEST_HITS:
                self._found, self._resting = {}, REST
            self._lookups = self._hits = 0
        self._lookups += 1
        found = self._found.get(text)
        self._hits += found is not None
        return found

    def put(self, text: str, codes: CodesOfString) -> None:
        if self._resting or len(text) > LONGEST:
            return
        if len(self._found) >= MOST:
            self._found = {}  # what is frequent is soon back
        self._found[text] = codes
