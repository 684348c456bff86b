"""Functions of one string on whole columns: case, blanks, length, addresses.

Results are the same as those of language/functions/ on one string. Strings that the kernels do not handle (letters beyond ASCII, unusual
addresses) are passed to those functions, once per distinct string."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.string_hashes import distinct_of
from ray_pubsub.kernels.computed.addresses import UNUSUAL, V4, V6, read_addresses
from ray_pubsub.kernels.computed.texts import count_characters, switch_case, trimmed_bounds
from ray_pubsub.language.functions.folding import simple_lower, simple_upper
from ray_pubsub.language.functions.networks import DOWN, address_half
from ray_pubsub.language.terms import Attribute, Call, Term, is_computed
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.text_column import TextBytes, TextColumn
from ray_pubsub.model.values import Kind

__all__ = ["text_term_lanes"]


def text_term_lanes(name: str, term: Term, lanes: dict[str, list[Lane]]) -> list[Lane] | None:
    """Returns the lanes of a term that consists of functions of one string, such as `lower(trim(name))`; None for any other term."""
    inward: list[str] = []
    while isinstance(term, Call) and len(term.arguments) == 1:
        inward.append(term.function)
        term = term.arguments[0]
    if not inward or not isinstance(term, Attribute) or is_computed(term.name):
        return None
    if (inward[0] not in TO_TEXT and inward[0] not in TO_NUMBER) or not set(inward[1:]) <= TO_TEXT.keys():
        return None
    mine = lanes.get(term.name, [])
    if inward[-1] == "length" and any(lane.kind == Kind.LIST for lane in mine):
        return None
    lane = next((lane for lane in mine if lane.kind == Kind.STRING), None)
    if lane is None:
        return []
    assert lane.strings is not None
    strings = lane.strings
    for function in reversed(inward):
        if function in TO_NUMBER:
            return _numbers(name, lane, *TO_NUMBER[function](strings))
        strings = TO_TEXT[function](strings)
    return [replace(lane, attribute=name, strings=strings)]


def _numbers(name: str, lane: Lane, known: NDArray[np.bool_] | None, numbers: NDArray[np.int64]) -> list[Lane]:
    if known is None:
        return [Lane(name, Kind.NUMBER, lane.rows, numbers[lane.whole])]
    cells = np.flatnonzero(known[lane.whole])
    rows = lane.rows
    if len(cells) < len(lane):
        rows = cells.astype(np.int32) if rows is None else rows[cells]
    return [Lane(name, Kind.NUMBER, rows, numbers[lane.whole[cells]])] if len(cells) else []


def _in_other_case(first_letter: int, fold: Callable[[str], str]) -> Callable[[TextColumn], TextColumn]:
    def compute(strings: TextColumn) -> TextColumn:
        data, offsets, beyond = switch_case(*strings.bytes, first_letter)
        start, stop = offsets[:-1], offsets[1:]
        places = np.flatnonzero(beyond)
        if not len(places):
            return TextColumn(TextBytes(data, start, stop))
        which, distinct = distinct_of(strings.take(places))
        folded = TextColumn.encoded([fold(text) for text in distinct]).bytes
        start, stop = start.copy(), stop.copy()
        start[places], stop[places] = folded.start[which] + len(data), folded.stop[which] + len(data)
        return TextColumn(TextBytes(np.concatenate([data, folded.data]), start, stop))

    return compute


def _trimmed(left: bool, right: bool) -> Callable[[TextColumn], TextColumn]:
    def compute(strings: TextColumn) -> TextColumn:
        return TextColumn(TextBytes(strings.bytes.data, *trimmed_bounds(*strings.bytes, left, right)))

    return compute


def _length(strings: TextColumn) -> tuple[None, NDArray[np.int64]]:
    return None, count_characters(*strings.bytes)


def _version_4(strings: TextColumn) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    kind, number, _ = read_addresses(*strings.bytes)
    return kind == V4, number.view(np.int64)


def _half(is_upper: bool) -> Callable[[TextColumn], tuple[NDArray[np.bool_], NDArray[np.int64]]]:
    def compute(strings: TextColumn) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        kind, upper, lower = read_addresses(*strings.bytes)
        known = kind == V6
        numbers = ((upper if is_upper else lower) ^ np.uint64(DOWN)).view(np.int64)
        for place in np.flatnonzero(kind == UNUSUAL).tolist():
            found = address_half(strings.raw(place).decode(), is_upper)
            if found is not None:
                known[place], numbers[place] = True, found
        return known, numbers

    return compute


TO_TEXT: dict[str, Callable[[TextColumn], TextColumn]] = {
    "lower": _in_other_case(ord("A"), simple_lower),
    "upper": _in_other_case(ord("a"), simple_upper),
    "trim": _trimmed(True, True),
    "ltrim": _trimmed(True, False),
    "rtrim": _trimmed(False, True),
}
TO_NUMBER: dict[str, Callable[[TextColumn], tuple[NDArray[np.bool_] | None, NDArray[np.int64]]]] = {
    "length": _length,
    "ip4": _version_4,
    "ip6_upper": _half(True),
    "ip6_lower": _half(False),
}
"""Each function returns which strings have a number (None: all), and the numbers."""
