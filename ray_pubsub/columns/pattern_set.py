"""Finds which of an attribute's patterns match a string, for thousands of patterns at once.

- `like '%abc'` and `like '%abc%'` are answered by one search for all their texts (literal_search.py).
- Other patterns that require a text (language/required_text.py) are evaluated only on strings that contain it, found by the same search:
  those of `like` by a kernel (like_programs.py), regular expressions by RE2.
- Patterns that require no text are evaluated in groups (regexp_set.py).

Few patterns on few strings are evaluated one by one, which takes less time than setting up a search.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.like_programs import LikePrograms
from ray_pubsub.columns.literal_search import Literal, LiteralSearch
from ray_pubsub.columns.regexp_set import RegexpSet
from ray_pubsub.kernels.columns.found_texts import patterns_of_texts
from ray_pubsub.language.pattern_test import pattern_test, regexp_of, text_position
from ray_pubsub.language.patterns import compile_regexp
from ray_pubsub.language.required_text import required_texts
from ray_pubsub.language.tree import Like, Regexp
from ray_pubsub.model.text_column import TextColumn

__all__ = ["FEW", "PatternSet"]

FEW = 64
"""Up to this many pairs of a pattern and a string are evaluated one by one."""
FEW_OF_ONE = 24
"""Up to this many patterns are evaluated one by one on a single string, at 0.1 µs each; a search takes 2 µs, however many there are."""
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Strings, and the patterns that match them."""


class PatternSet:
    """Immutable; the search structures are built at the first use."""

    def __init__(self, leaves: Sequence[Like | Regexp]) -> None:
        """Patterns are numbered in the order given. Negation is ignored."""
        self._leaves = leaves
        self._tests = [pattern_test(leaf) for leaf in leaves] if len(leaves) <= FEW else []
        self._searches: _Searches | None = None
        self._making = threading.Lock()

    def matches(self, strings: TextColumn) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns offsets and numbers: string i matches the patterns numbers[offsets[i]:offsets[i + 1]], in any order."""
        if len(self._leaves) * len(strings) <= FEW:
            answers = [[number for number, test in enumerate(self._tests) if test(text)] for text in strings]
            offsets = np.zeros(len(strings) + 1, dtype=np.int64)
            np.cumsum([len(answer) for answer in answers], out=offsets[1:])
            return offsets, np.array([number for answer in answers for number in answer], dtype=np.int64)
        return self._searching(strings).matches(strings)

    def matches_of(self, string: str) -> list[int]:
        """Returns the patterns that match one string, in any order."""
        if len(self._leaves) <= FEW_OF_ONE:
            return [number for number, test in enumerate(self._tests) if test(string)]
        searches = self._searches or self._searching(TextColumn(None, [string]))
        return searches.matches_of(string)

    def _searching(self, sample: TextColumn) -> _Searches:
        if self._searches is None:
            with self._making:
                self._searches = self._searches or _Searches(self._leaves, sample)
        return self._searches


class _Lists:
    """For each text, a list of patterns."""

    def __init__(self, lists: Sequence[Sequence[int]]) -> None:
        self._offsets = np.concatenate([[0], np.cumsum([len(each) for each in lists])]).astype(np.int64)
        self._patterns = np.array([pattern for each in lists for pattern in each], dtype=np.int64)
        self._one_each = all(len(each) == 1 for each in lists)

    def __bool__(self) -> bool:
        return len(self._patterns) > 0

    def of_texts(
        self, offsets: NDArray[np.int64], texts: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The patterns of the texts of each string, in the same form."""
        if self._one_each:
            return offsets, self._patterns[texts]
        room = int((self._offsets[texts + 1] - self._offsets[texts]).sum())
        offsets_of, patterns = np.empty_like(offsets), np.empty(room, np.int64)
        patterns_of_texts(offsets, texts, self._offsets, self._patterns, offsets_of, patterns)
        return offsets_of, patterns


class _Searches:
    def __init__(self, leaves: Sequence[Like | Regexp], sample: TextColumn) -> None:
        self._leaves = leaves
        literals: dict[Literal, int] = {}
        # For each text, the patterns that match wherever it occurs, and those that must be evaluated on the string.
        matched: list[list[int]] = []
        asked: list[list[int]] = []
        rest: list[int] = []
        for number, leaf in enumerate(leaves):
            position, texts = text_position(leaf), required_texts(leaf)
            for text, folded in texts:
                place = literals.setdefault(Literal(text, position == "end", folded), len(literals))
                if place == len(matched):
                    matched.append([])
                    asked.append([])
                (matched if position else asked)[place].append(number)
            if not texts:
                rest.append(number)
        self._matched, self._asked = _Lists(matched), _Lists(asked)
        self._matched_of, self._asked_of = matched, asked
        self._search = LiteralSearch(list(literals), sample) if literals else None
        self._likes = LikePrograms(leaves, {number for numbers in asked for number in numbers})
        self._rest = RegexpSet([regexp_of(leaves[number]) for number in rest], rest) if rest else None

    def matches(self, strings: TextColumn) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns offsets and numbers of patterns, for each string those that match it."""
        offsets, patterns = np.zeros(len(strings) + 1, np.int64), np.empty(0, np.int64)
        more: list[Pairs] = []
        if self._search is not None:
            found = self._search.find(strings)
            offsets, patterns = self._matched.of_texts(*found)
            if self._asked:
                more.append(self._answers(strings, *_pairs(*self._asked.of_texts(*found))))
        if self._rest is not None:
            more.append(self._rest.pairs(strings))
        if sum(len(each[0]) for each in more):
            more.append(_pairs(offsets, patterns))
            string, pattern = (np.concatenate(parts) for parts in zip(*more, strict=True))
            np.cumsum(np.bincount(string, minlength=len(strings)), out=offsets[1:])
            patterns = pattern[np.argsort(string, kind="stable")]
        return offsets, patterns

    def matches_of(self, string: str) -> list[int]:
        """Returns the patterns that match one string, without creating an array."""
        found: list[int] = []
        asked: set[int] = set()
        for text in self._search.find_in_one(string) if self._search is not None else ():
            found += self._matched_of[text]
            asked.update(self._asked_of[text])
        for number in asked:
            if compile_regexp(regexp_of(self._leaves[number])).search(string) is not None:
                found.append(number)
        if self._rest is not None:
            found += self._rest.matches(string.encode())
        return found

    def _answers(self, strings: TextColumn, string: NDArray[np.int64], pattern: NDArray[np.int64]) -> Pairs:
        """Returns the pairs that are matches; a pair may be given more than once."""
        known = self._likes.known[pattern]
        likes = np.flatnonzero(known)
        holds = self._likes.answers(strings, string[likes], pattern[likes])
        chosen = likes[holds]
        others = self._confirmed(strings, string[~known], pattern[~known])
        return np.concatenate([string[chosen], others[0]]), np.concatenate([pattern[chosen], others[1]])

    def _confirmed(self, strings: TextColumn, string: NDArray[np.int64], pattern: NDArray[np.int64]) -> Pairs:
        """Returns the pairs that RE2 confirms as matches, each once."""
        if not len(string):
            return string, pattern
        both = np.unique(pattern * len(strings) + string)
        string, pattern = both % len(strings), both // len(strings)
        matches = np.zeros(len(both), dtype=bool)
        last: int = -1
        search: Any = None
        for place, (asked, number) in enumerate(zip(string.tolist(), pattern.tolist(), strict=True)):
            if number != last:
                last, search = number, compile_regexp(regexp_of(self._leaves[number])).search
            matches[place] = search(strings.raw(asked)) is not None
        return string[matches], pattern[matches]


def _pairs(offsets: NDArray[np.int64], patterns: NDArray[np.int64]) -> Pairs:
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), patterns
