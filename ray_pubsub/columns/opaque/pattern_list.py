"""Patterns of `like` and `regexp` as numbers, because an object for each of a hundred thousand would cost too much memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.columns.opaque_sets import ESCAPE_SHIFT, NEGATED_PATTERN, REGEXP_PATTERN, TEXT_SHIFT
from ray_pubsub.language.tree import Like, Operand, Regexp
from ray_pubsub.model.values import Kind

__all__ = ["PatternColumn", "PatternList", "key_of_leaf", "leaf_of_key", "moved_keys", "texts_of_keys"]

ESCAPES = (1 << (TEXT_SHIFT - ESCAPE_SHIFT)) - 1


def key_of_leaf(leaf: Like | Regexp, vocabulary: Vocabulary) -> int:
    """Returns the key of a pattern: the number of its text in the vocabulary, its escape, whether it is a regular expression, and whether
    it is negated."""
    key = vocabulary.strings.number(leaf.pattern.plain) << TEXT_SHIFT
    if isinstance(leaf, Regexp):
        key |= REGEXP_PATTERN
    elif leaf.escape:
        key |= (ord(leaf.escape) + 1) << ESCAPE_SHIFT
    return key | NEGATED_PATTERN if leaf.negated else key


def leaf_of_key(key: int, attribute: int, vocabulary: Vocabulary) -> Like | Regexp:
    """Returns the pattern of a key, on an attribute."""
    name = vocabulary.attributes.texts[attribute]
    pattern = Operand(Kind.STRING, vocabulary.strings.texts[key >> TEXT_SHIFT])
    negated = key & NEGATED_PATTERN != 0
    if key & REGEXP_PATTERN:
        return Regexp(name, pattern, negated)
    escape = key >> ESCAPE_SHIFT & ESCAPES
    return Like(name, pattern, chr(escape - 1) if escape else None, negated)


def texts_of_keys(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the numbers of the patterns' texts."""
    found: NDArray[np.int64] = keys >> TEXT_SHIFT
    return found


def moved_keys(keys: NDArray[np.int64], strings: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the keys of the same patterns in a vocabulary where text t has the number strings[t]."""
    found: NDArray[np.int64] = strings[keys >> TEXT_SHIFT] << TEXT_SHIFT | keys & ((1 << TEXT_SHIFT) - 1)
    return found


@dataclass(frozen=True, slots=True)
class PatternColumn:
    """A column that says whether an attribute matches a pattern, which is never negated here."""

    attribute: int
    leaf: Like | Regexp


class PatternList(Sequence[PatternColumn]):
    """The patterns of a code space: pattern keys[i], never negated, is on attributes[i]."""

    def __init__(self, attributes: NDArray[np.int32], keys: NDArray[np.int64], vocabulary: Vocabulary | None) -> None:
        self.attributes, self.keys = attributes, keys
        self._vocabulary = vocabulary

    @classmethod
    def none(cls) -> PatternList:
        return cls(np.empty(0, np.int32), np.empty(0, np.int64), None)

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> PatternColumn: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[PatternColumn]: ...

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return PatternList(self.attributes[place], self.keys[place], self._vocabulary)
        key, attribute = int(self.keys[place]), int(self.attributes[place])
        assert self._vocabulary is not None, "only a list of no patterns has no vocabulary"
        return PatternColumn(attribute, leaf_of_key(key, attribute, self._vocabulary))
