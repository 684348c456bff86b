"""Many subscriptions given as texts, compiled to clauses before any lock is taken: an index only has to number their names and add the
clauses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_compiler import Compiled, Compiler
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.decoding import move_table
from ray_pubsub.columns.texts.text_compiler import compile_texts, kernels_are_loaded
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Source
from ray_pubsub.errors import RayPubSubError, Rejection
from ray_pubsub.index.storage.saved_texts import SavedText
from ray_pubsub.kernels.index.hits import MULTIPLE, RESIDUAL
from ray_pubsub.kernels.readiness import are_ready
from ray_pubsub.language.shapes import Expression, ShapeCache
from ray_pubsub.language.terms import attributes_of, attributes_of_term, is_computed
from ray_pubsub.model.arguments import are_ids, check_id
from ray_pubsub.settings import Limits

__all__ = ["TextBatch", "are_worth_compiling", "is_long"]

TEXTS_FOR_KERNELS, TEXTS_TO_LOAD_KERNELS = 16, 1000
"""The number of texts from which on the kernels compile them together. In a process that has not loaded these kernels yet, more texts
are needed to pay for loading."""
LONG_TEXT = 4000
"""A text with more characters is compiled by kernels even if it comes alone: in Python that would take milliseconds, under the index's
lock."""

LONG_TEXTS, TEXTS_TO_COMPILE_KERNELS = 50_000, 20_000_000
"""Texts with more characters in all are compiled by kernels, however few they are. As long as these kernels are not compiled themselves,
only more than the second number are: compiling the kernels takes as long as parsing that many in Python."""

AT_ONCE = 1024
"""The number of texts that are parsed together, and then compiled, if the kernels do not read them."""


def are_worth_compiling(texts: Sequence[str]) -> bool:
    """Returns whether there are enough texts, or long enough ones, to be compiled together."""
    loaded = kernels_are_loaded()
    if not loaded and not are_ready():
        return _characters(texts) > TEXTS_TO_COMPILE_KERNELS
    if len(texts) >= (TEXTS_FOR_KERNELS if loaded else TEXTS_TO_LOAD_KERNELS):
        return True
    return any(map(is_long, texts)) or _characters(texts) > LONG_TEXTS


def is_long(text: object) -> bool:
    """Returns whether a text is compiled by kernels even if it comes alone."""
    return isinstance(text, str) and len(text) > LONG_TEXT and (kernels_are_loaded() or are_ready())


def _characters(texts: Sequence[str]) -> int:
    return sum(len(text) for text in texts if isinstance(text, str))


class TextBatch(Sequence[Source]):
    """The sources of subscriptions, one per text, and the clauses of all of them."""

    def __init__(self, texts: Sequence[str], shapes: ShapeCache, limits: Limits) -> None:
        compiled = compile_texts(texts, limits, ignore_case=shapes.ignore_case)
        self._vocabulary, self._table = compiled.vocabulary, compiled.table
        self._flags = np.where(compiled.repeated, MULTIPLE, 0).astype(np.uint8)
        self._flags[compiled.weakened] |= RESIDUAL
        self._errors: dict[int, RayPubSubError] = {}
        parse = shapes.parse  # one bound method is shared by all
        self._sources: list[Source] = [SavedText(text, parse) for text in texts]
        self._slots = np.arange(len(texts))
        """The slot of each text, -1 for one that is not added."""
        if len(compiled.left):
            self._add_left(compiled.left, texts, shapes, limits)

    def __len__(self) -> int:
        return len(self._sources)

    @overload
    def __getitem__(self, place: int) -> Source: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Source]: ...

    def __getitem__(self, place: Any) -> Any:
        return self._sources[place]

    @classmethod
    def of_one(cls, text: str, shapes: ShapeCache, limits: Limits) -> TextBatch:
        """Compiles one long text. Raises ExpressionError."""
        batch = cls([text], shapes, limits)
        for error in batch._errors.values():
            raise error
        return batch

    def refuse(self, rejections: Iterable[Rejection]) -> None:
        """Refuses texts for these reasons. If a text is not a valid expression either, that is the reason given."""
        for rejection in rejections:
            self._errors.setdefault(rejection.position, rejection.error)

    def accept(self, ids: Sequence[Any]) -> tuple[Sequence[Any], list[Rejection]]:
        """Keeps only the texts that are valid expressions with valid ids. Returns those ids, and the rejections of the others."""
        if not are_ids(ids):
            for place, identity in enumerate(ids):
                try:
                    check_id(identity)
                except RayPubSubError as error:
                    self._errors[place] = error
        if not self._errors:
            return ids, []
        good = [place for place in range(len(ids)) if place not in self._errors]
        self._sources = [self._sources[place] for place in good]
        slots = np.full(len(self._slots), -1)
        slots[good] = np.arange(len(good))
        self._slots = slots
        refused = [Rejection(place, ids[place], error) for place, error in sorted(self._errors.items())]
        return [ids[place] for place in good], refused

    def number(self, first_slot: int, added: NDArray[np.int64]) -> None:
        """Assigns slots. Accepted text i has the slot first_slot + i if that is among `added`; otherwise another text with the same id
        replaced it."""
        slots = self._slots + first_slot
        slots[self._slots < 0] = -1
        if len(added) < len(self._sources):
            slots[~np.isin(slots, added)] = -1
            self._sources = [self._sources[slot - first_slot] for slot in added.tolist()]
        self._slots = slots

    def clauses(self, vocabulary: Vocabulary) -> ClauseTable:
        """Returns the clauses of the added slots, in another vocabulary."""
        table = self._table
        kept = self._slots[table.owners[: table.count]] >= 0
        if not kept.all():
            table = table.take(np.flatnonzero(kept))
        return move_table(table, self._slots, self._vocabulary, vocabulary)

    def flagged(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Returns the slots that must be marked, and their flags."""
        places = np.flatnonzero((self._flags > 0) & (self._slots >= 0))
        return self._slots[places], self._flags[places]

    def residual(self) -> Iterator[tuple[int, Source]]:
        """Yields the slots whose clauses only find candidates, with the sources that decide."""
        places = np.flatnonzero((self._flags & RESIDUAL > 0) & (self._slots >= 0))
        order = {slot: number for number, slot in enumerate(np.sort(self._slots[self._slots >= 0]).tolist())}
        for slot in self._slots[places].tolist():
            yield slot, self._sources[order[slot]]

    @property
    def attributes(self) -> list[str]:
        """The attributes of events that the texts depend on."""
        names = self._vocabulary.attributes
        plain = dict.fromkeys(name for name in names.texts if not is_computed(name))
        for term in names.terms.values():
            plain.update(dict.fromkeys(sorted(attributes_of_term(term))))
        return list(plain)

    def _add_left(self, left: NDArray[np.int64], texts: Sequence[str], shapes: ShapeCache, limits: Limits) -> None:
        """Compiles the texts that the kernels did not read, one by one."""
        compiler = Compiler(self._vocabulary, limits)
        compiler.resume_table(self._table)
        places = left.tolist()
        for start in range(0, len(places), AT_ONCE):  # in portions, because trees take memory
            some = places[start : start + AT_ONCE]
            parsed = shapes.parse_many([texts[place] for place in some])
            for place, expression in zip(some, parsed, strict=True):
                if isinstance(expression, RayPubSubError):
                    self._errors[place] = expression
                else:
                    self._append(place, expression, compiler.compile(expression))
        # Restores the order of their slots.
        self._table = self._table.take(np.argsort(self._table.owners[: self._table.count], kind="stable"))

    def _append(self, place: int, expression: Expression, compiled: Compiled) -> None:
        repeats = len(compiled.clauses) > 1 and not compiled.conjunctive
        self._flags[place] = (MULTIPLE if repeats else 0) | (RESIDUAL if compiled.residual else 0)
        for records in compiled.clauses:
            self._table.append(place, records)
        if compiled.residual:
            self._vocabulary.attributes.numbers(sorted(attributes_of(expression.tree)))
