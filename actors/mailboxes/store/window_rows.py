"""Tracks which rows of a window's table are older than the window."""

from __future__ import annotations

from collections import deque

__all__ = ["WindowRows"]

PARTS = 64
"""Rows are deleted in groups of about one part in this many of the window, because a number for each row would take more memory than the
keys."""


class WindowRows:
    """Counts the keys and bytes of rows by their ids, which ascend by one. A row is outside the window when newer rows hold as many
    keys, or as many bytes, as the window remembers."""

    def __init__(self, most_keys: int, most_bytes: int) -> None:
        self._most_keys, self._most_bytes = most_keys, most_bytes
        self._groups: deque[tuple[int, int, int]] = deque()  # the last id, keys, bytes
        self._keys = self._bytes = 0
        self.next_id = 1

    def add(self, keys: int, size: int) -> int | None:
        """Adds a row with the next id. Returns the last id that is now outside the window, or None if no more rows are."""
        id, self.next_id = self.next_id, self.next_id + 1
        self._keys, self._bytes = self._keys + keys, self._bytes + size
        if self._groups:
            _, last_keys, last_bytes = self._groups[-1]
            if last_keys * PARTS < self._most_keys and last_bytes * PARTS < self._most_bytes:
                self._groups.pop()
                keys, size = last_keys + keys, last_bytes + size
        self._groups.append((id, keys, size))
        left_behind = None
        while self._groups and (
            self._keys - self._groups[0][1] >= self._most_keys or self._bytes - self._groups[0][2] >= self._most_bytes
        ):
            left_behind, keys, size = self._groups.popleft()
            self._keys, self._bytes = self._keys - keys, self._bytes - size
        return left_behind
