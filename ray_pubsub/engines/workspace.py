"""Scratch memory of a thread. All segments, tails and snapshots share it: fresh memory is slow, and an index has many parts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Workspace", "workspace"]

T = TypeVar("T")


class Workspace:
    """Arrays by purpose. They grow and are not given back; what a kernel needs zeroed it leaves zeroed."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Any, tuple[int, Any]] = {}

    def take(self, purpose: Any, make: Callable[[int], T], size: int) -> T:
        """What `make(size)` made for this purpose, or made of a larger size. If the size has grown, it is made again with a quarter to
        spare."""
        kept = self._kept.get(purpose)
        if kept is None or size > kept[0]:
            room = size if kept is None else size + size // 4
            kept = self._kept[purpose] = (room, make(room))
        found: T = kept[1]
        return found


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.workspace = Workspace()


_per_thread = _PerThread()


def workspace() -> Workspace:
    """This thread's."""
    return _per_thread.workspace
