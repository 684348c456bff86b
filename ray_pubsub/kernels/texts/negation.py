"""Negation in programs (layout.py): nothing is rewritten, every item only knows whether it is negated."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import piece
from ray_pubsub.kernels.texts.layout import NOT

__all__ = ["mark_negated"]


@piece
def mark_negated(program, start, stop, frames, negated):
    """negated[i]: whether item start + i stands under an odd number of negations. From the end of the program on, each item says what those
    before it are under; `frames` is scratch memory for those that are open."""
    depth = 0
    frames[0] = 1 << 1
    for place in range(stop - 1, start - 1, -1):
        while frames[depth] < 2:
            depth -= 1
        odd = frames[depth] & 1
        frames[depth] -= 2
        negated[place - start] = odd
        item = program[place]
        if item == NOT:
            depth += 1
            frames[depth] = (1 << 1) | (odd ^ 1)
        elif item < 0:
            depth += 1
            frames[depth] = ((-item >> 1) << 1) | odd
