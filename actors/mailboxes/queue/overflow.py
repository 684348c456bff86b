"""Decides which entries make room when the queue is full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from actors.mailboxes.queue.entries import ORDER
from actors.mailboxes.queue.line import Line

__all__ = ["VICTIMS", "Overflow", "refused_groups"]

Overflow = Literal["reject", "drop-oldest", "drop-lowest"]
"""reject: an item that does not fit does not enter. drop-oldest: the entry put first leaves, whatever its level. drop-lowest: of the
lowest level that has entries, the one put first leaves; that may be the new one, if all others are of higher levels."""


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


VICTIMS: dict[str, Callable[[Sequence[Line]], Line]] = {"drop-oldest": _oldest, "drop-lowest": _lowest}
"""Chooses the line whose front leaves, for each way of overflow by which an entry leaves."""
