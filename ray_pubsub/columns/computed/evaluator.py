"""Evaluates the computed attributes of a batch: each distinct term once, in columns, however many subscriptions use it.

Arithmetic on numbers and functions of one string run on whole columns (number_column.py, text_terms.py). Any other term is evaluated by
the specification itself (language/truth.py), once per distinct combination of the values that it depends on. Tests of lists against
constants are flags (list_flags.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from ray_pubsub.columns.computed.distinct_rows import distinct_rows
from ray_pubsub.columns.computed.list_comparisons import list_comparison_lanes
from ray_pubsub.columns.computed.list_flags import ElementConditions, ListFlags
from ray_pubsub.columns.computed.list_terms import list_term_lanes
from ray_pubsub.columns.computed.number_column import COLUMN_OPERATIONS, NumberColumn
from ray_pubsub.columns.computed.single_terms import SingleTerms
from ray_pubsub.columns.computed.text_terms import text_term_lanes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.language.terms import (
    COMPUTED,
    NOW,
    Attribute,
    Call,
    Term,
    attributes_of_name,
    is_computed,
    is_flag_term,
    name_uses_now,
    parts_of,
    term_of,
)
from ray_pubsub.language.tree import Operand
from ray_pubsub.language.truth import value_of_term
from ray_pubsub.model.dicts.value_column import lanes_of_results
from ray_pubsub.model.event_batch import EventBatch, Flags, Lane
from ray_pubsub.model.single_event import KIND_OF, SingleEvent
from ray_pubsub.model.values import Kind, Value

__all__ = ["Evaluator"]


class Evaluator:
    """Evaluates the terms of a vocabulary, which only grows. Readers may evaluate while a writer adds."""

    def __init__(self, vocabulary: Vocabulary, conditions: Callable[[], ElementConditions]) -> None:
        """`conditions` creates an index for the conditions that `exists` has on the elements of one list."""
        self._vocabulary = vocabulary
        self._growing = threading.Lock()
        self._known = 0
        self._terms: list[tuple[int, str, Term]] = []
        self._single = SingleTerms()
        self._flags = ListFlags(conditions)

    def computed(self, batch: EventBatch, unused: frozenset[int] = frozenset()) -> EventBatch:
        """Returns the batch with its computed attributes, or the batch itself if there are none. `unused`: numbers of terms that need no
        value."""
        numbers = self._vocabulary.attributes.computed
        if not numbers:
            return batch
        self._learn(numbers)
        known: tuple[Vocabulary, int, frozenset[int], EventBatch] | None = batch.plans.get("computed")
        if known is not None and known[0] is self._vocabulary and known[1:3] == (len(numbers), unused):
            return known[3]
        if isinstance(batch, SingleEvent):
            found: EventBatch = self._of_single(batch, unused)
        else:
            chosen = [(name, term) for number, name, term in list(self._terms) if number not in unused]
            # An event's own attribute with a computed attribute's name must not replace the computed value.
            own = [lane for lane in batch.lanes if not is_computed(lane.attribute)]
            lanes = _by_attribute(own)
            added = [lane for name, term in chosen for lane in _lanes_of(name, term, lanes, batch)]
            for name in self._flags.terms:
                lanes[name] = [_with_own_lists(lane) for lane in _lanes_of(name, term_of(name), lanes, batch)]
            flags = self._flags.of(lanes, batch)
            found = replace(
                batch, lanes=[*own, *added], flags=flags, _layout=None, _cells=None, plans=type(batch.plans)()
            )
        batch.plans.remember("computed", (self._vocabulary, len(numbers), unused, found))
        return found

    def _learn(self, numbers: list[int]) -> None:
        if self._known == len(numbers):
            return
        with self._growing:
            texts = self._vocabulary.attributes.texts
            for number in numbers[self._known :]:
                term = self._vocabulary.attributes.terms.pop(number, None) or term_of(texts[number])
                # `list_contains(l, 5) is null` needs the answer itself, also if it is false. Such a term is written in parentheses; a
                # flag is not.
                if is_flag_term(term) and not texts[number].startswith(f"{COMPUTED}("):
                    self._flags.add(number, term.tree)  # type: ignore[union-attr, arg-type]
                else:
                    self._terms.append((number, texts[number], term))
                    self._single.add(number, texts[number], term)
                self._known += 1
            self._flags.settle()

    def _of_single(self, event: SingleEvent, unused: frozenset[int]) -> SingleEvent:
        used, tested = self._single.attributes, self._flags.attributes
        values = {
            name: Value(KIND_OF[kind], plain)
            for name, kind, plain in zip(event.names, event.kinds, event.plains, strict=True)
            if name in used or name in tested
        }
        chosen = self._single.of(values, unused)
        if self._single.use_now or self._flags.terms:
            values[NOW] = Value(Kind.TIMESTAMP, event.moment)
        found: list[tuple[str, Value]] = []
        for _, name, term, needed in chosen:
            value = value_of_term(term, values) if needed <= values.keys() else None
            if value is not None:
                found.append((name, value))
        for name in self._flags.terms:
            value = value_of_term(term_of(name), values)
            if value is not None:
                values[name] = value
        flags = (
            [] if tested.isdisjoint(values) and not self._flags.terms else sorted(self._flags.of_event(values, event))
        )
        if not found and not flags:
            return event
        names, kinds, plains = list(event.names), list(event.kinds), list(event.plains)
        if any(map(is_computed, names)):
            kept = [place for place, name in enumerate(names) if not is_computed(name)]
            names, kinds, plains = [names[at] for at in kept], [kinds[at] for at in kept], [plains[at] for at in kept]
        for name, value in found:
            names.append(name)
            kinds.append(int(value.kind))
            plains.append(value.plain)
        computed = SingleEvent(names, kinds, plains, event.scope)
        computed._moment = event._moment
        if flags:
            computed.flags = Flags(np.zeros(len(flags), np.int32), np.array(flags, np.int32))
        return computed


def _by_attribute(lanes: Iterable[Lane]) -> dict[str, list[Lane]]:
    found: dict[str, list[Lane]] = {}
    for lane in lanes:
        found.setdefault(lane.attribute, []).append(_with_own_lists(lane))
    return found


def _with_own_lists(lane: Lane) -> Lane:
    """Returns the lane with exactly the lists of its own rows, in row order."""
    if lane.lists is None:
        return lane
    if len(lane) == len(lane.lists) and (lane.whole == np.arange(len(lane))).all():
        return lane
    return replace(lane, whole=np.arange(len(lane)), lists=lane.lists.take(lane.whole))


def _lanes_of(name: str, term: Term, lanes: dict[str, list[Lane]], batch: EventBatch) -> list[Lane]:
    """Returns the values of a term, as lanes of an attribute with this name."""
    if _is_arithmetic(term) and not _has_moments(term, lanes):
        lane = _numbers(term, lanes, batch.size).lane(name)
        return [] if lane is None else [lane]
    if isinstance(term, Call) and term.function == "-" and term.arguments[0] == Call("now", ()):
        since = _since_now(name, term.arguments[1], lanes, batch)
        if since is not None:
            return since
    of_lists = list_term_lanes(name, term, lanes)
    if of_lists is None:
        of_lists = list_comparison_lanes(name, term, lanes, batch.size)
    if of_lists is not None:
        return of_lists
    of_texts = text_term_lanes(name, term, lanes)
    if of_texts is not None:
        return of_texts
    attributes = sorted(attributes_of_name(name))
    number, events = distinct_rows(attributes, lanes, batch.size)
    if name_uses_now(name):
        term = _at_moment(term, batch.moment)
        events = [{**event, NOW: Value(Kind.TIMESTAMP, batch.moment)} for event in events]
    return lanes_of_results(name, [value_of_term(term, event) for event in events], number)


def _at_moment(term: Term, moment: int) -> Term:
    """Returns the term with the values of all its parts that depend on now() alone: they are the same for every event of the batch."""
    if not isinstance(term, Call):
        return term
    if all(isinstance(part, Call | Operand) for part in parts_of(term)):
        value = value_of_term(term, {NOW: Value(Kind.TIMESTAMP, moment)})
        return Operand(None, None) if value is None else Operand(value.kind, value.plain)
    return Call(term.function, tuple(_at_moment(argument, moment) for argument in term.arguments))


def _has_moments(term: Term, lanes: dict[str, list[Lane]]) -> bool:
    """Returns whether an attribute of the term is a timestamp anywhere in the batch: arithmetic in columns handles numbers only."""
    names = (part.name for part in parts_of(term) if isinstance(part, Attribute))
    return any(lane.kind == Kind.TIMESTAMP for name in names for lane in lanes.get(name, ()))


def _since_now(name: str, subject: Term, lanes: dict[str, list[Lane]], batch: EventBatch) -> list[Lane] | None:
    """Evaluates `now() - attribute` on a whole column."""
    if not isinstance(subject, Attribute) or is_computed(subject.name):
        return None
    lane = next((lane for lane in lanes.get(subject.name, []) if lane.kind == Kind.TIMESTAMP), None)
    others = any(lane.kind == Kind.NUMBER for lane in lanes.get(subject.name, []))
    if others or (lane is not None and (np.abs(lane.whole.astype(np.float64)) > 2.0**62).any()):
        return None
    return [] if lane is None else [Lane(name, Kind.NUMBER, lane.rows, batch.moment - lane.whole)]


def _is_arithmetic(term: Term) -> bool:
    """Returns whether every operation of the term can run on columns."""
    return isinstance(term, Call) and all(
        isinstance(part, Attribute)
        or (isinstance(part, Operand) and part.kind is Kind.NUMBER)
        or (isinstance(part, Call) and part.function in COLUMN_OPERATIONS)
        for part in parts_of(term)
    )


def _numbers(term: Term, lanes: dict[str, list[Lane]], size: int) -> NumberColumn:
    if isinstance(term, Operand):
        return NumberColumn.constant(term.plain, size)
    if isinstance(term, Attribute):
        lane = next((lane for lane in lanes.get(term.name, []) if lane.kind == Kind.NUMBER), None)
        return NumberColumn.of_lane(lane, size)
    assert isinstance(term, Call)
    return COLUMN_OPERATIONS[term.function](*(_numbers(argument, lanes, size) for argument in term.arguments))
