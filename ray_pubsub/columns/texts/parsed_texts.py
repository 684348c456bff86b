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
from ray_pubsub.columns.texts.called_predicates import NO_PART, CalledPredicates, leaves_of, most_depth
from ray_pubsub.columns.texts.known_patterns import KnownPatterns
from ray_pubsub.kernels.texts import layout
from ray_pubsub.kernels.texts.layout import Parsed
from ray_pubsub.kernels.texts.parse import parse_texts
from ray_pubsub.kernels.texts.predicates import TextLimits
from ray_pubsub.kernels.texts.splice import NO_OPERANDS, called_leaves, splice
from ray_pubsub.language import words
from ray_pubsub.language.building.predicates import in_lower_case
from ray_pubsub.language.building.term_kinds import EVERY_KIND, possible_kinds
from ray_pubsub.language.case_folding import fold_term
from ray_pubsub.language.functions.folding import simple_lower
from ray_pubsub.language.parser import parse_value
from ray_pubsub.language.printer import computed_name
from ray_pubsub.language.terms import Attribute, Call, Condition, Term
from ray_pubsub.model.event_batch import split_number
from ray_pubsub.model.text_column import TextBytes, TextColumn
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

__all__ = ["ParsedTexts"]

EVERY_BIT = sum(1 << kind for kind in EVERY_KIND)
"""The kind of attributes whose kind depends on the event."""

READERS: dict[int, tuple[Kind, Callable[[str, bool], Any]]] = {
    layout.ODD_NUMBER: (Kind.NUMBER, words.read_number),
    layout.MOMENT: (Kind.TIMESTAMP, lambda text, _: words.read_moment(text)),
    layout.DATE: (Kind.TIMESTAMP, lambda text, _: words.read_date(text)),
    layout.DOUBLE: (Kind.NUMBER, lambda text, _: words.read_special(text)),
}


class ParsedTexts:
    """The predicates of texts. An attribute's number is its position in `attributes`, which is sorted; strings have the vocabulary's
    numbers."""

    def __init__(
        self, texts: Sequence[str], limits: Limits, patterns: KnownPatterns, *, ignore_case: bool = False, lowering: bool = True
    ) -> None:  # fmt: skip
        """Names get numbers in the vocabulary of `patterns`. `ignore_case`: every text ignores case (language/case_folding.py). `lowering`:
        see CalledPredicates."""
        self.patterns, self.vocabulary = patterns, patterns.vocabulary
        self._limits, self._ignore_case = limits, ignore_case
        data, start, stop = _encoded(texts, limits)
        self.columns = Parsed.with_room(len(texts), len(data))
        named = TextLimits(
            limits.nesting_depth, limits.leaves, limits.set_size, limits.word_length, limits.pattern_length, ignore_case
        )
        self.read: NDArray[np.bool_]
        self.read, (leaves, operands, written, *_) = parse_texts(data, start, stop, named, self.columns)
        """Whether the kernel read each text; language/parser.py parses the others."""
        self.leaves, self.operands = self.columns.leaves[:leaves], self.columns.operands[:operands]
        self._buffer = self.columns.buffer[:written]
        self.terms: dict[str, Term] = {}
        """Of the computed attributes."""
        self._called = CalledPredicates(self.vocabulary, limits, ignore_case=ignore_case, lowering=lowering)
        part_of = self._parse_called()
        self.attributes = self._number_attributes()
        self._number_strings()
        self._read_constants()
        self._check_patterns()
        self._check_kinds()
        if part_of is not None:
            self._splice(part_of)

    def _parse_called(self) -> NDArray[np.int32] | None:
        """Parses the predicates that the kernel has cut out. Returns the part that takes the place of each leaf, or -1; None if there are
        no such predicates."""
        if not (self.leaves["operator"] == layout.CALLED).any():
            return None
        columns, called = self.columns, self._called
        longest = int(np.diff(columns.program_offsets).max(initial=0))
        places, owner, negated = called_leaves(columns, len(self.leaves), longest)
        which, written = self._distinct(self.leaves["name_start"][places], self.leaves["name_stop"][places])
        found = [called.parse(text) for text in written]
        leaves = np.array([0 if tree is None else leaves_of(tree) for tree in found])
        depth = np.array(list(map(most_depth, written)))
        used, part = np.unique(2 * which + negated, return_inverse=True)
        numbers = [
            NO_PART if (tree := found[number >> 1]) is None else called.add(tree, number & 1 != 0) for number in used.tolist()
        ]  # fmt: skip
        part_of = np.full(len(self.leaves), NO_PART, np.int32)
        part_of[places] = np.array(numbers, np.int32)[part]
        # The kernel took each for one predicate. What may exceed a limit is left to language/parser.py, which counts exactly.
        counts = np.diff(columns.leaf_offsets)
        np.add.at(counts, owner, leaves[which] - 1)
        deepest = columns.depth.copy()
        np.maximum.at(deepest, owner, columns.depth[owner] + depth[which] - 1)
        self.read[owner[part_of[places] == NO_PART]] = False
        self.read &= (counts <= self._limits.leaves) & (deepest <= self._limits.nesting_depth)
        return part_of

    def _splice(self, part_of: NDArray[np.int32]) -> None:
        """Puts the parts in the places of their leaves."""
        columns, called = self.columns, self._called
        rank = {name: number for number, name in enumerate(self.attributes)}
        parts = called.parts(np.array([rank[name] for name in called.names] or [0], np.int32), len(self._buffer))
        used = part_of[part_of >= 0]
        first = parts.leaves["first"][parts.leaf_offsets]
        sizes = [np.diff(offsets)[used].sum() for offsets in (parts.leaf_offsets, first, parts.program_offsets)]
        room = np.array([len(self.leaves), len(self.operands), len(columns.program)]) + sizes
        self._buffer = np.concatenate([self._buffer, np.frombuffer(bytes(called.escapes), np.uint8)])
        leaves, operands, program, program_offsets, leaf_offsets = splice(columns, part_of, parts, room, NO_OPERANDS)
        self.columns = Parsed(leaves, operands, program, program_offsets, leaf_offsets, self._buffer, columns.depth)
        self.leaves, self.operands = self.columns.leaves[:-1], self.columns.operands

    def _number_attributes(self) -> list[str]:
        leaves = self.leaves
        named = np.flatnonzero((leaves["operator"] != layout.CONSTANT) & (leaves["operator"] != layout.CALLED))
        which, written = self._distinct(leaves["name_start"][named], leaves["name_stop"][named])
        changed = 2 * leaves["is_term"][named].astype(np.int64) + leaves["folded"][named]
        used, which = np.unique(4 * which + changed, return_inverse=True) if changed.any() else (None, which)
        names: list[str | None] = [*written]
        if used is not None:
            names = [self._name(written[number >> 2], number & 2 != 0, number & 1 != 0) for number in used.tolist()]
        order = sorted({name for name in names if name is not None}.union(self._called.names))
        self.terms.update(self._called.terms)
        rank: dict[str | None, int] = {name: number for number, name in enumerate(order)}
        leaves["attribute"][named] = np.array([rank.get(name, -1) for name in names], np.int32)[which]
        for leaf in named[leaves["attribute"][named] < 0].tolist():
            self._refuse_leaf(leaf)
            leaves["attribute"][leaf] = 0
        return order

    def _name(self, written: str, is_term: bool, folded: bool) -> str | None:
        """Returns the name of a plain or computed attribute; None if it is no value."""
        if not (is_term or folded):
            return written
        term = parse_value(written, self._limits) if is_term else Attribute(written)
        if not isinstance(term, Attribute | Call | Condition):
            return None
        term = fold_term(term) if self._ignore_case else term
        term = in_lower_case(term) if folded else term
        name = computed_name(term)
        if not isinstance(term, Attribute):
            self.terms[name] = term
        return name

    def _check_kinds(self) -> None:
        """Refuses predicates on values that are never of the constants' kind."""
        kinds = np.full(
            max(len(self.attributes), 1), EVERY_BIT, np.int64
        )  # a bit for each kind that an attribute may have
        for number, name in enumerate(self.attributes):
            if name in self.terms:
                kinds[number] = sum(1 << kind for kind in possible_kinds(self.terms[name]))
        if (kinds == EVERY_BIT).all():
            return
        operator, of_value = self.leaves["operator"], kinds[self.leaves["attribute"]]
        of_value[(operator == layout.CONSTANT) | (operator == layout.CALLED)] = EVERY_BIT
        owner = np.repeat(np.arange(len(self.leaves)), self._constants_of_leaves())
        found = self.operands["kind"].astype(np.int64)
        is_pattern = (operator == layout.LIKE) | (operator == layout.REGEXP)
        bad = is_pattern & (of_value & (1 << layout.STRING) == 0)
        known = np.flatnonzero(found != layout.UNKNOWN)
        bad[owner[known[of_value[owner[known]] >> found[known] & 1 == 0]]] = True
        for leaf in np.flatnonzero(bad).tolist():
            self._refuse_leaf(leaf)

    def _number_strings(self) -> None:
        is_string = self.operands["kind"] == layout.STRING
        places = np.flatnonzero(is_string)
        which, strings = self._distinct(self.operands["start"][places], self.operands["stop"][places])
        folded = np.repeat(self.leaves["folded"] != 0, self._constants_of_leaves())[places]
        if not folded.any():
            number = np.array(self.vocabulary.strings.numbers_of_distinct(strings), np.int64)[which]
        else:
            number = np.empty(len(places), np.int64)
            for chosen, change in ((~folded, str), (folded, simple_lower)):
                used, place = np.unique(which[chosen], return_inverse=True)
                texts = [change(strings[each]) for each in used.tolist()]
                number[chosen] = np.array(self.vocabulary.strings.numbers(texts), np.int64)[place]
        self.operands["whole"][places] = number
        self.operands["rest"][places] = 0.0

    def _constants_of_leaves(self) -> NDArray[np.int64]:
        """Returns the number of operands of each leaf."""
        return np.diff(np.append(self.leaves["first"], len(self.operands)))

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
        """Checks the regular expressions. The kernel has checked the patterns of `like`."""
        first = self.leaves["first"][self.leaves["operator"] == layout.REGEXP]
        patterns = self.operands["whole"][first]
        bad = self.patterns.bad_regexps(np.unique(patterns).tolist())
        for operand in first[np.isin(patterns, bad)].tolist():
            self._refuse(operand)

    def _refuse(self, operand: int) -> None:
        """Leaves the text of an operand to language/parser.py, which reports what is wrong with it."""
        self._refuse_leaf(int(np.searchsorted(self.leaves["first"], operand, side="right")) - 1)

    def _refuse_leaf(self, leaf: int) -> None:
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
