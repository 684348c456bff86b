"""The predicates of texts that the parsing kernel has read, in columns, completed by Python.

Python numbers the distinct attributes and strings, parses the few constants that the kernel does not (timestamps, long numbers) and
checks the patterns that may be invalid; each distinct one once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.string_hashes import distinct_of
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.columns.runs import distinct_pairs
from ray_pubsub.kernels.texts import layout
from ray_pubsub.kernels.texts.layout import Parsed
from ray_pubsub.kernels.texts.parse import TextLimits, parse_texts
from ray_pubsub.language import words
from ray_pubsub.language.patterns import compile_regexp, like_pieces
from ray_pubsub.language.plain_regexps import is_plainly_valid
from ray_pubsub.model.event_batch import split_number
from ray_pubsub.model.text_column import TextBytes, TextColumn
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

__all__ = ["ParsedTexts"]

READERS: dict[int, tuple[Kind, Callable[[str, bool], Any]]] = {
    layout.ODD_NUMBER: (Kind.NUMBER, words.read_number),
    layout.MOMENT: (Kind.TIMESTAMP, lambda text, _: words.read_moment(text)),
    layout.DATE: (Kind.TIMESTAMP, lambda text, _: words.read_date(text)),
    layout.DOUBLE: (Kind.NUMBER, lambda text, _: words.read_special(text)),
}


class ParsedTexts:
    """The predicates of texts. An attribute's number is its position in `attributes`, which is sorted; strings have the vocabulary's
    numbers."""

    def __init__(self, texts: Sequence[str], limits: Limits, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        data, start, stop = _encoded(texts, limits)
        self.columns = Parsed.with_room(len(texts), len(data))
        named = TextLimits(
            limits.nesting_depth, limits.leaves, limits.set_size, limits.word_length, limits.pattern_length
        )
        self.read: NDArray[np.bool_]
        self.read, (leaves, operands, written, _) = parse_texts(data, start, stop, named, self.columns)
        """Whether the kernel read each text; language/parser.py parses the others."""
        self.leaves, self.operands = self.columns.leaves[:leaves], self.columns.operands[:operands]
        self._buffer = self.columns.buffer[:written]
        self.attributes = self._number_attributes()
        self._number_strings()
        self._read_constants()
        self._check_patterns()

    def _number_attributes(self) -> list[str]:
        named = np.flatnonzero(self.leaves["operator"] != layout.CONSTANT)
        which, names = self._distinct(self.leaves["name_start"][named], self.leaves["name_stop"][named])
        order = sorted(range(len(names)), key=names.__getitem__)
        rank = np.empty(len(names), np.int32)
        rank[order] = np.arange(len(names), dtype=np.int32)
        self.leaves["attribute"][named] = rank[which]
        return [names[place] for place in order]

    def _number_strings(self) -> None:
        places = np.flatnonzero(self.operands["kind"] == layout.STRING)
        which, strings = self._distinct(self.operands["start"][places], self.operands["stop"][places])
        self.operands["whole"][places] = np.array(self.vocabulary.strings.numbers_of_distinct(strings), np.int64)[which]
        self.operands["rest"][places] = 0.0

    def _distinct(self, start: NDArray[np.int64], stop: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
        if not len(start):
            return np.empty(0, np.int64), []
        which, distinct = distinct_of(TextColumn(TextBytes(self._buffer, start, stop)))
        raw = self._buffer.tobytes()
        _, start, stop = distinct.bytes
        places = zip(start.tolist(), stop.tolist(), strict=True)
        if raw.isascii():  # bytes are characters, so slicing one text creates one object, not two
            text = raw.decode()
            return which, [text[first:last] for first, last in places]
        return which, [raw[first:last].decode() for first, last in places]

    def _read_constants(self) -> None:
        places = np.flatnonzero(self.operands["kind"] >= layout.ODD_NUMBER)
        if not len(places):
            return
        raw = self._buffer.tobytes()
        known: dict[tuple[int, bool, bytes], tuple[int, int, float] | None] = {}
        chosen = self.operands[places]
        keys = zip(
            chosen["kind"].tolist(),
            (chosen["rest"] < 0).tolist(),
            chosen["start"].tolist(),
            chosen["stop"].tolist(),
            strict=True,
        )
        for place, (kind, negative, start, stop) in zip(places.tolist(), keys, strict=True):
            key = kind, negative and kind == layout.ODD_NUMBER, raw[start:stop]
            if key not in known:
                known[key] = _read(*key)
            constant = known[key]
            if constant is None:
                self._refuse(place)
            else:
                self.operands["kind"][place], self.operands["whole"][place], self.operands["rest"][place] = constant

    def _check_patterns(self) -> None:
        operator = self.leaves["operator"]
        risky = np.flatnonzero(
            (operator == layout.REGEXP) | ((operator == layout.LIKE) & (self.leaves["escaped"] != 0))
        )
        if not len(risky):
            return
        strings, whole = self.vocabulary.strings.texts, self.operands["whole"]
        first = self.leaves["first"][risky]
        escape = np.where(operator[risky] == layout.REGEXP, -1, whole[np.minimum(first + 1, len(whole) - 1)])
        which, distinct = distinct_pairs(escape.astype(np.int32), whole[first])
        pairs = zip(escape[distinct].tolist(), whole[first[distinct]].tolist(), strict=True)
        bad = [place for place, (number, pattern) in enumerate(pairs) if not self._is_pattern(strings, pattern, number)]
        for leaf in np.flatnonzero(np.isin(which, bad)).tolist():
            self._refuse(int(first[leaf]))

    @staticmethod
    def _is_pattern(strings: list[str], pattern: int, escape: int) -> bool:
        """Returns whether a pattern is valid. `escape` is -1 for a regular expression."""
        text = strings[pattern]
        try:
            if escape >= 0:
                like_pieces(text, strings[escape] or None)
            elif not is_plainly_valid(text):
                compile_regexp(text)
        except words.BadConstant:
            return False
        return True

    def _refuse(self, operand: int) -> None:
        """Leaves the text of an operand to language/parser.py, which reports what is wrong with it."""
        leaf = int(np.searchsorted(self.leaves["first"], operand, side="right")) - 1
        self.read[int(np.searchsorted(self.columns.leaf_offsets, leaf, side="right")) - 1] = False


def _encoded(texts: Sequence[str], limits: Limits) -> TextBytes:
    """Returns the texts as bytes. A text that is too long, or not a str, becomes an empty text, which is not an expression."""
    longest = limits.text_length
    if set(map(type, texts)) > {str} or max(map(len, texts), default=0) > longest:
        texts = [text if type(text) is str and len(text) <= longest else "" for text in texts]
    try:
        return TextColumn.encoded(texts).bytes
    except UnicodeEncodeError:
        return TextColumn.encoded([text if _is_unicode(text) else "" for text in texts]).bytes


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(kind: int, negative: bool, raw: bytes) -> tuple[int, int, float] | None:
    """Returns kind, whole and rest of a constant; None if it is not valid."""
    text = raw.decode()
    known, read = READERS[kind]
    try:
        value = read(text if kind == layout.ODD_NUMBER else "'" + text.replace("'", "''") + "'", negative)
    except words.BadConstant:
        return None
    whole, rest = split_number(value)
    return int(known), whole, rest + 0.0
