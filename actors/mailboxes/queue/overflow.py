"""Decides which entries make room when the queue is full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from actors.mailboxes.queue.entries import ORDER
from actors.mailboxes.queue.line import Line
from ray_pubsub.errors import SettingError

__all__ = ["Overflow", "refused_groups", "victim_chooser"]

Overflow = Literal["reject", "drop-oldest", "drop-lowest"]
"""reject: an item that does not fit does not enter. drop-oldest: the entry put first leaves, whatever its level. drop-lowest: of the
lowest level that has entries, the one put first leaves; that may be the new one, if all others are of higher levels."""


def victim_chooser(overflow: str) -> Callable[[Sequence[Line]], Line] | None:
    """Returns the function that chooses the line whose front leaves, or None if none leaves."""
    if not isinstance(overflow, str) or overflow not in get_args(Overflow):
        raise SettingError("overflow", f"must be one of {', '.join(get_args(Overflow))}, not {overflow!r}")
    return {"drop-oldest": _oldest, "drop-lowest": _lowest}.get(overflow)


def refused_groups(
    counts: Sequence[int], sizes: Sequence[int], waiting: int, capacity: float, used: int, capacity_bytes: float
) -> Sequence[int]:
    """Returns the positions of the groups that do not fit. Group i has `counts[i]` entries of the size `sizes[i]` each. A group enters
    as a whole or not at all; a group that is larger than the queue enters an empty queue, because otherwise it never would. An entry
    larger than the byte capacity never enters."""
    if waiting >= capacity:
        return list(range(len(counts)))
    rejected: list[int] = []
    for position, (count, size) in enumerate(zip(counts, sizes, strict=True)):
        fits = waiting + count <= capacity and used + count * size <= capacity_bytes
        if fits or (not waiting and size <= capacity_bytes):
            waiting, used = waiting + count, used + count * size
        else:
            rejected.append(position)
    return rejected


def _oldest(lines: Sequence[Line]) -> Line:
    return min((line for line in lines if len(line)), key=lambda line: line.head[ORDER])


def _lowest(lines: Sequence[Line]) -> Line:
    return next(line for line in lines if len(line))
