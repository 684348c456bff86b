"""Scratch memory of a thread: fresh memory is slow, and matches in several threads must not write to the same arrays.

`workspace()` is what all segments, tails and snapshots share, by purpose. `PerThread` is for memory whose layout belongs to one segment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["PerThread", "Workspace", "workspace"]

T = TypeVar("T")


class Workspace:
    """Arrays by purpose. They grow and are never given back. A kernel that needs zeroes leaves zeroes behind."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Any, tuple[int, Any]] = {}

    def take(self, purpose: Any, make: Callable[[int], T], size: int) -> T:
        """Returns what `make` made for this purpose, for this size or a larger one. When the size has grown, it is made again with a
        quarter to spare."""
        kept = self._kept.get(purpose)
        if kept is None or size > kept[0]:
            room = size if kept is None else size + size // 4
            kept = self._kept[purpose] = (room, make(room))
        found: T = kept[1]
        return found


class PerThread(threading.local, Generic[T]):
    """One value for each thread. `make` is given with each request and not kept: a segment that kept a method of its own would be freed
    only by the garbage collector."""

    def __init__(self) -> None:
        self._value: T | None = None

    def get(self, make: Callable[[], T]) -> T:
        """Returns the calling thread's value, made by `make` when that thread first asks."""
        value = self._value
        if value is None:
            value = self._value = make()
        return value


_workspaces: PerThread[Workspace] = PerThread()


def workspace() -> Workspace:
    """Returns the calling thread's workspace."""
    return _workspaces.get(Workspace)
