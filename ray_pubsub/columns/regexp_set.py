"""Finds which of many regular expressions match a string with RE2's sets: one automaton per set of patterns, one pass over the string.

If an automaton has too little memory, RE2 refuses to create the set. If it runs out of memory later, it reports no match without an
error. Therefore every set has one more pattern that matches any string: if it is missing from the answer, the patterns are evaluated one
by one. (RE2's filter, which evaluates only patterns that may match, fails in the same way, and cannot be given such a pattern.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import re2
from numpy.typing import NDArray

from ray_pubsub.language.patterns import compile_regexp
from ray_pubsub.model.text_column import TextColumn

__all__ = ["RegexpSet"]

PATTERNS_PER_SET = 32
"""A larger set has more states, because a state is a set of positions in the patterns. When the states no longer fit into memory, they
are created over and over, and the set is slower than its patterns one by one."""
MEMORY_PER_SET = 2 << 20
ANYTHING = ""


class RegexpSet:
    """The automata of many patterns. Immutable. Strings are bytes of UTF-8."""

    def __init__(self, patterns: Sequence[str], numbers: Sequence[int], *, memory: int = MEMORY_PER_SET) -> None:
        """Takes valid patterns, and the number by which answers refer to each."""
        self._memory = memory
        self._sets: list[tuple[Any, list[str], list[int]]] = []
        """RE2's set (None if it could not be created), its patterns and their numbers."""
        for start in range(0, len(patterns), PATTERNS_PER_SET):
            end = start + PATTERNS_PER_SET
            self._add(list(patterns[start:end]), list(numbers[start:end]))

    def matches(self, text: bytes) -> list[int]:
        """Returns the numbers of the patterns that match."""
        found: list[int] = []
        for together, patterns, numbers in self._sets:
            answer = together.Match(text) if together is not None else None
            if answer is None:
                pairs = zip(patterns, numbers, strict=True)
                found += [number for pattern, number in pairs if compile_regexp(pattern).search(text) is not None]
            elif len(answer) > 1:
                found += [numbers[place - 1] for place in answer if place > 0]
        return found

    def pairs(self, strings: TextColumn) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns pairs of a string's position and the number of a pattern that matches it."""
        answers = [self.matches(strings.raw(place)) for place in range(len(strings))]
        string = np.repeat(np.arange(len(strings)), [len(answer) for answer in answers])
        return string, np.array([number for answer in answers for number in answer], dtype=np.int64)

    def _add(self, patterns: list[str], numbers: list[int]) -> None:
        """Adds the patterns as one set, or cuts them in two if they are too large for one."""
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = self._memory
        together = re2.Set.SearchSet(options)
        try:
            for pattern in (ANYTHING, *patterns):
                together.Add(pattern)
            together.Compile()
        except re2.error:
            if len(patterns) == 1:
                self._sets.append((None, patterns, numbers))
                return
            middle = len(patterns) // 2
            self._add(patterns[:middle], numbers[:middle])
            self._add(patterns[middle:], numbers[middle:])
            return
        self._sets.append((together, patterns, numbers))
