"""Patterns of `like` as programs of a kernel, which decides them on many strings at once (kernels/columns/like_patterns.py)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.columns.like_patterns import ANY_ONE, ANY_RUN, like_answers
from ray_pubsub.language.patterns import ANY_STRING, like_pieces
from ray_pubsub.language.tree import Like, Regexp
from ray_pubsub.model.text_column import TextColumn

__all__ = ["LikePrograms"]

MOST_STEPS = 256
"""A longer pattern is left to RE2: the kernel's time is that of the string times that of a text in the pattern."""


class LikePrograms:
    """The programs of those `like` patterns among some leaves that a kernel can decide. Immutable."""

    def __init__(self, leaves: Sequence[Like | Regexp], wanted: Collection[int]) -> None:
        """Takes those of the leaves that are wanted and of `like`."""
        self.known: NDArray[np.bool_] = np.zeros(len(leaves), dtype=np.bool_)
        """For each leaf whether `answers` decides it."""
        programs: dict[int, list[int]] = {}
        for number in wanted:
            leaf = leaves[number]
            program = _program(leaf) if isinstance(leaf, Like) else []
            if 0 < len(program) <= MOST_STEPS:
                programs[number] = program
                self.known[number] = True
        lengths = np.zeros(len(leaves) + 1, np.int64)
        for number, program in programs.items():
            lengths[number + 1] = len(program)
        self._offsets = np.cumsum(lengths)
        self._programs = np.array([step for number in sorted(programs) for step in programs[number]], np.int16)

    def answers(self, strings: TextColumn, string: NDArray[np.int64], pattern: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns for each pair of a string and a known pattern whether they match."""
        found = np.empty(len(pattern), dtype=np.bool_)
        if len(pattern):
            like_answers(*strings.bytes, (string, pattern), self._offsets, self._programs, found)
        return found


def _program(leaf: Like) -> list[int]:
    steps: list[int] = []
    for piece in like_pieces(leaf.pattern.plain, leaf.escape):
        if isinstance(piece, str):
            steps += piece.encode()
        else:
            steps.append(ANY_RUN if piece == ANY_STRING else ANY_ONE)
    return steps
