"""Which of an attribute's patterns match a string, for thousands of patterns at once.

- `like '%abc'` and `like '%abc%'` are answered by one search for all their texts (literal_search.py).
- Other patterns are asked only about strings that contain the text they require (language/required_text.py), found by the same search.
- Patterns that require no text are asked in sets (regexp_set.py).
A few patterns are asked one by one: that takes less time than setting anything up.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.literal_search import LiteralSearch
from ray_pubsub.columns.regexp_set import RegexpSet
from ray_pubsub.language.pattern_test import pattern_test, regexp_of, text_position
from ray_pubsub.language.required_text import required_text
from ray_pubsub.language.tree import Like, Regexp

__all__ = ["PatternSet"]

FEW = 8
"""Up to so many patterns are asked one by one."""


class PatternSet:
    """Immutable; what it searches with is made when it is first asked."""

    def __init__(self, leaves: Sequence[Like | Regexp]) -> None:
        """Patterns are numbered in the order given. Whether they are negated is no matter."""
        self._leaves = leaves
        self._searches: _Searches | None = None
        self._making = threading.Lock()

    def matches(self, strings: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """String i is matched by the patterns numbers[offsets[i]:offsets[i + 1]], in any order."""
        if len(self._leaves) <= FEW:
            tests = [pattern_test(leaf) for leaf in self._leaves]
            answers = [[number for number, test in enumerate(tests) if test(text)] for text in strings]
        else:
            if self._searches is None:
                with self._making:
                    self._searches = self._searches or _Searches(self._leaves)
            answers = self._searches.matches(strings)
        offsets = np.zeros(len(strings) + 1, dtype=np.int64)
        np.cumsum([len(answer) for answer in answers], out=offsets[1:])
        return offsets, np.array([number for answer in answers for number in answer], dtype=np.int64)


class _Searches:
    def __init__(self, leaves: Sequence[Like | Regexp]) -> None:
        self._leaves = leaves
        texts: dict[str, int] = {}
        # Per text the patterns that match where it occurs, where it ends the string, and that are asked where it occurs.
        self._inside: list[list[int]] = []
        self._end: list[list[int]] = []
        self._asked: list[list[int]] = []
        kinds = {"inside": self._inside, "end": self._end, "": self._asked}
        rest: list[int] = []
        for number, leaf in enumerate(leaves):
            text = required_text(leaf)
            if not text:
                rest.append(number)
                continue
            place = texts.setdefault(text, len(texts))
            if place == len(self._asked):
                for lists in kinds.values():
                    lists.append([])
            kinds[text_position(leaf)][place].append(number)
        self._search = LiteralSearch(list(texts)) if texts else None
        self._rest = RegexpSet([regexp_of(leaves[number]) for number in rest], rest) if rest else None

    def matches(self, strings: Sequence[str]) -> list[list[int]]:
        encoded = [text.encode() for text in strings]
        found = [self._rest.matches(text) for text in encoded] if self._rest else [[] for _ in encoded]
        if self._search is None:
            return found
        offsets, texts, ending = self._search.find(encoded)
        for place, string in enumerate(strings):
            for hit in range(offsets[place], offsets[place + 1]):
                text = texts[hit]
                found[place] += self._inside[text]
                if ending[hit]:
                    found[place] += self._end[text]
                found[place] += [each for each in self._asked[text] if pattern_test(self._leaves[each])(string)]
        return found
