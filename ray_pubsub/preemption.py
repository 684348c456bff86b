"""Lets a long match of a batch give way to a more urgent one.

A kernel cannot be interrupted, so a thread that may have to give way calls its kernels for parts of the work, and offers to give way
between two of them. All other threads do the whole work in one call: the parts cost them nothing. Who calls `offer` holds no lock that a
match needs, because another match runs meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["offer", "part_of", "preemptible"]

PART = 1 << 24
"""Pairs of an event and a clause that a part of the work compares: about a millisecond, and 30 µs are lost between two parts."""


class _Thread(threading.local):
    give_way: Callable[[], None] | None = None


_thread = _Thread()


@contextmanager
def preemptible(give_way: Callable[[], None]) -> Iterator[None]:
    """In this block the calling thread calls `give_way` between the parts of its work. That may wait for as long as others need."""
    before, _thread.give_way = _thread.give_way, give_way
    try:
        yield
    finally:
        _thread.give_way = before


def offer() -> None:
    """Gives way, if this thread is preemptible and somebody more urgent waits."""
    if _thread.give_way is not None:
        _thread.give_way()


def part_of(count: int, work: int) -> int:
    """Returns how many of `count` items to process until the next `offer`: all, if this thread is not preemptible. `work`: the pairs of an
    event and a clause that one item compares."""
    return count if _thread.give_way is None else max(1, PART // max(1, work))
