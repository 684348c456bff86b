"""Splits the deliveries of a chunk by mailbox. Consecutive rows that are alike become one run."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from actors.mailboxes.mailbox import MailboxRun
from actors.mailboxes.store.delivery_chunk import DELIVERY_BYTES, Chunk

__all__ = ["by_mailbox", "groups_of", "sizes_of"]


def groups_of(chunk: Chunk) -> Iterator[tuple[int, int, int, int]]:
    """Yields the groups of consecutive rows of one subscriber: the code, the first row, the row after the last, and the sum of the
    sizes."""
    if not len(chunk):
        return iter(())
    if len(chunk) == 1:  # for a single delivery numpy is slower than Python
        return iter([(int(chunk.subscribers[0]), 0, 1, chunk.size_of_one())])
    subscribers = chunk.subscribers
    bounds = _bounds(subscribers[1:] != subscribers[:-1], len(chunk))
    totals = np.add.reduceat(chunk.sizes(), bounds[:-1])
    return zip(subscribers[bounds[:-1]].tolist(), bounds[:-1], bounds[1:], totals.tolist(), strict=True)


def sizes_of(chunk: Chunk) -> array[int] | None:
    """Returns the accounted size of each row, or None if it is DELIVERY_BYTES for all."""
    if not any(chunk.contents):
        return None
    sizes = array("q")
    sizes.frombytes(chunk.sizes().tobytes())
    return sizes


def by_mailbox(chunk: Chunk, live: NDArray[np.bool_] | None = None) -> Iterator[tuple[int, float, list[MailboxRun]]]:
    """Yields subscriber, time of publication and runs of the live rows, in the chunk's order."""
    if not len(chunk):
        return
    if len(chunk) == 1:
        if live is None or live[0]:
            run: MailboxRun = (int(chunk.levels[0]), range(chunk.first, chunk.first + 1), chunk.size_of_one())
            yield int(chunk.subscribers[0]), float(chunk.enqueued[chunk.events[0]]), [run]
        return
    sizes: Sequence[int] | None = sizes_of(chunk)
    enqueued = chunk.enqueued[chunk.events]
    differs = (
        (chunk.subscribers[1:] != chunk.subscribers[:-1])
        | (chunk.levels[1:] != chunk.levels[:-1])
        | (enqueued[1:] != enqueued[:-1])
        | (np.diff(chunk.sequence) != 1)
    )
    if live is not None:
        differs |= live[1:] != live[:-1]
    bounds = _bounds(differs, len(chunk))
    starts = bounds[:-1]
    firsts, codes = chunk.sequence[starts].tolist(), chunk.subscribers[starts].tolist()
    levels, times = chunk.levels[starts].tolist(), enqueued[starts].tolist()
    wanted = [True] * len(starts) if live is None else live[starts].tolist()
    runs: list[MailboxRun] = []
    owner: tuple[int, float] | None = None
    for start, stop, first, code, level, time, want in zip(
        starts, bounds[1:], firsts, codes, levels, times, wanted, strict=True
    ):
        if not want:
            continue
        if owner != (code, time):
            if owner is not None:
                yield *owner, runs
            owner, runs = (code, time), []
        size: Sequence[int] | int = DELIVERY_BYTES
        if sizes is not None:
            size = sizes[start:stop] if stop - start > 1 else sizes[start]
        runs.append((level, range(first, first + stop - start), size))
    if owner is not None:
        yield *owner, runs


def _bounds(differs: NDArray[np.bool_], rows: int) -> list[int]:
    return [0, *(np.flatnonzero(differs) + 1).tolist(), rows]
