"""What is known of a vocabulary's strings as patterns. The texts of a batch are compiled in portions, whose patterns repeat."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.texts.predicate_cuts import EQUALITY, NO_SUCCESSOR
from ray_pubsub.language.patterns import compile_regexp, prefix_successor
from ray_pubsub.language.plain_regexps import is_plainly_valid
from ray_pubsub.language.words import BadConstant

__all__ = ["KnownPatterns"]

LAST_PLAIN = "\ud000"
"""Characters before this one have a successor of their own; the general case is slower."""
UNKNOWN = -1


class KnownPatterns:
    """By the numbers of strings, for those that were asked for."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary, self._strings = vocabulary, vocabulary.strings
        self.prefix = np.empty(0, np.int64)
        self.prefix_end = np.empty(0, np.int64)
        """As in StringOrder (kernels/texts/predicate_cuts.py)."""
        self._valid: dict[int, bool] = {}

    def make_room(self) -> None:
        """Makes room for the strings that the vocabulary has now."""
        if len(self._strings) > len(self.prefix):
            more = np.full(2 * len(self._strings) - len(self.prefix), UNKNOWN, np.int64)
            self.prefix, self.prefix_end = (np.concatenate([known, more]) for known in (self.prefix, self.prefix_end))

    def find_prefixes(self, patterns: NDArray[np.int64]) -> None:
        """For each `like` that has wildcards only at its ends, finds the number of its prefix, and of the least string above all that
        have the prefix."""
        patterns = patterns[self.prefix[patterns] == UNKNOWN]
        if not len(patterns):
            return
        strings = self._strings
        texts = list(map(strings.texts.__getitem__, patterns.tolist()))
        prefixes = [text.rstrip("%") for text in texts]
        successors = [
            prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix and prefix[-1] < LAST_PLAIN else prefix_successor(prefix)
            for prefix in prefixes
        ]
        self.prefix[patterns] = strings.numbers(prefixes)
        ends = np.array(strings.numbers(successor or "" for successor in successors), np.int64)
        ends[[successor is None for successor in successors]] = NO_SUCCESSOR
        ends[[len(text) == len(prefix) for text, prefix in zip(texts, prefixes, strict=True)]] = EQUALITY
        self.prefix_end[patterns] = ends

    def bad_regexps(self, patterns: list[int]) -> list[int]:
        """Returns those that are no valid regular expressions."""
        texts, known = self._strings.texts, self._valid
        for pattern in patterns:
            if pattern not in known:
                known[pattern] = _is_regexp(texts[pattern])
        return [pattern for pattern in patterns if not known[pattern]]


def _is_regexp(pattern: str) -> bool:
    if is_plainly_valid(pattern):
        return True
    try:
        compile_regexp(pattern)
    except BadConstant:
        return False
    return True
