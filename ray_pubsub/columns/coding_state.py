"""Converts code spaces and coded tests to plain data and back. What can be derived (track positions, ranks) is not saved."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import (
    KINDS,
    LARGEST_CODE,
    MATCH,
    RANKED,
    CodedTests,
    CodeSpace,
    track_layout,
)
from ray_pubsub.columns.opaque.pattern_list import PatternList, key_of_leaf
from ray_pubsub.columns.saved_state import SavedState, State, Texts, check, check_offsets, check_within
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.language.tree import Like, Operand, Regexp
from ray_pubsub.model.values import Kind

__all__ = [
    "Pieces",
    "check_codes",
    "coded_state",
    "pieces_state",
    "restored_coded",
    "restored_pieces",
    "restored_space",
    "space_state",
]

REGEXP, LIKE, LIKE_WITH_ESCAPE = 0, 1, 2
MOST_CODES = 64
"""The largest plausible number of codes per test, several times what coding.py ever assigns."""
Pieces = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]


def space_state(space: CodeSpace) -> State:
    leaves = [pattern.leaf for pattern in space.patterns]
    escapes = [leaf.escape if isinstance(leaf, Like) else None for leaf in leaves]
    forms = [
        REGEXP if isinstance(leaf, Regexp) else (LIKE if escape is None else LIKE_WITH_ESCAPE)
        for leaf, escape in zip(leaves, escapes, strict=True)
    ]
    return {
        "attributes": space.attributes,
        "count": space.count,
        "least": space.least,
        "whole": space.operand_whole,
        "rest": space.operand_rest,
        "strings": Texts([text for column in sorted(space.strings) for text in space.strings[column]]),
        "patterns": Texts([leaf.pattern.plain for leaf in leaves]),
        "escapes": Texts([escape or "" for escape in escapes]),
        "forms": np.array(forms, np.uint8),
        "pattern_attributes": space.patterns.attributes,
        "refusals": np.array(sorted(space.refusals), np.int32),
    }


def restored_space(state: SavedState, vocabulary: Vocabulary) -> CodeSpace:
    """Returns the saved code space. Its strings are added to the vocabulary here, because readers of decoded clauses may look strings up
    but not add them."""
    attributes = state.array("attributes", np.int32, None)
    check_within(attributes, 0, len(vocabulary.attributes) - 1, "attributes")
    check((np.diff(attributes) > 0).all(), "attributes do not ascend")
    tracks = len(attributes) * KINDS
    count, least = state.array("count", np.int64, tracks), state.array("least", np.int64, tracks)
    check_within(count, 0, LARGEST_CODE, "operands")
    of_strings = np.arange(tracks) % KINDS == Kind.STRING
    listed = np.where((least == RANKED) & ~of_strings, count, 0)
    operands = int(listed.sum())
    base, top = track_layout(count)
    check_within(top, 0, LARGEST_CODE - 2, "codes")
    strings = _strings(state.texts("strings"), count[of_strings], vocabulary)
    patterns = _patterns(state, vocabulary)
    check(np.isin(patterns.attributes, attributes).all(), "patterns of attributes that no clause tests")
    refusals = state.array("refusals", np.int32, None)
    check_within(refusals, len(attributes), len(attributes) + len(patterns) - 1, "pattern columns")
    return CodeSpace(
        attributes=attributes,
        patterns=patterns,
        base=base.astype(np.int32),
        count=count,
        least=least,
        start=(np.cumsum(listed) - listed).astype(np.int64),
        operand_whole=state.array("whole", np.int64, operands),
        operand_rest=state.array("rest", np.float64, operands),
        strings=strings,
        top=np.concatenate([top.astype(np.int32), np.full(len(patterns), MATCH, np.int32)]),
        refusals=set(refusals.tolist()),
    )


def _strings(texts: list[str], counts: NDArray[np.int64], vocabulary: Vocabulary) -> dict[int, list[str]]:
    check(int(counts.sum()) == len(texts), "strings are missing, or too many")
    vocabulary.strings.numbers(texts)
    ends = np.cumsum(counts)
    return {
        column: texts[int(ends[column] - counts[column]) : int(ends[column])]
        for column in np.flatnonzero(counts).tolist()
    }


def _patterns(state: SavedState, vocabulary: Vocabulary) -> PatternList:
    patterns, escapes = state.texts("patterns"), state.texts("escapes")
    forms = state.array("forms", np.uint8, len(patterns))
    attributes = state.array("pattern_attributes", np.int32, len(patterns))
    check(len(escapes) == len(patterns), "escapes are missing")
    check_within(forms, REGEXP, LIKE_WITH_ESCAPE, "patterns' forms")
    check_within(attributes, 0, len(vocabulary.attributes) - 1, "patterns' attributes")
    found = []
    for pattern, escape, form, attribute in zip(patterns, escapes, forms.tolist(), attributes.tolist(), strict=True):
        name, operand = vocabulary.attributes.texts[attribute], Operand(Kind.STRING, pattern)
        check(form != LIKE_WITH_ESCAPE or len(escape) == 1, "an escape is one character")
        leaf = Regexp(name, operand) if form == REGEXP else Like(name, operand, None if form == LIKE else escape)
        found.append(key_of_leaf(leaf, vocabulary))
    return PatternList(attributes, np.array(found, np.int64), vocabulary)


def coded_state(coded: CodedTests) -> State:
    return {
        "space": space_state(coded.space),
        "offsets": coded.offsets,
        "column": coded.column,
        "low": coded.low,
        "high": coded.high,
        "pieces": coded.pieces,
        **pieces_state(coded.piece_offsets, coded.piece_low, coded.piece_high),
    }


def restored_coded(state: SavedState, vocabulary: Vocabulary, clauses: int) -> CodedTests:
    space = restored_space(state.state("space"), vocabulary)
    column = state.array("column", np.int32, None)
    low, high = state.array("low", np.int32, len(column)), state.array("high", np.int32, len(column))
    offsets = state.array("offsets", np.int64, clauses + 1)
    check_offsets(offsets, len(column), "clauses' tests")
    pieces = state.array("pieces", np.int32, len(column)) if state.has("pieces") else None
    parts = restored_pieces(state)
    check_codes(space, column, low, high, pieces, parts)
    # Structures built from these tests may allocate a place for every code, so the number of codes is limited.
    check(
        int(space.top.sum()) <= MOST_CODES * (len(column) + len(parts[1]) + len(space.top)), "more codes than operands"
    )
    return CodedTests(space, offsets, column, low, high, pieces, *parts)


def pieces_state(offsets: NDArray[np.int64], low: NDArray[np.int32], high: NDArray[np.int32]) -> State:
    return {"piece_offsets": offsets, "piece_low": low, "piece_high": high}


def restored_pieces(state: SavedState) -> Pieces:
    low = state.array("piece_low", np.int32, None)
    offsets, high = state.array("piece_offsets", np.int64, None), state.array("piece_high", np.int32, len(low))
    check_offsets(offsets, len(low), "pieces")
    check((np.diff(offsets) > 0).all() and (low <= high).all(), "pieces are empty")
    return offsets, low, high


def check_codes(
    space: CodeSpace,
    column: NDArray[Any],
    low: NDArray[Any],
    high: NDArray[Any],
    pieces: NDArray[np.int32] | None,
    parts: Pieces,
) -> None:
    """Checks that all tests are on existing columns, and that their codes and those of their pieces exist in these columns."""
    check_within(column, 0, space.columns - 1, "columns")
    check_within(low, 0, LARGEST_CODE, "codes")
    check((low <= high).all() and (high <= space.top[column]).all(), "codes out of range")
    if pieces is None or not len(pieces):
        return
    offsets, piece_low, piece_high = parts
    check_within(pieces, -1, len(offsets) - 2, "pieces")
    several = np.flatnonzero(pieces >= 0)
    if len(several):
        least, most = np.minimum.reduceat(piece_low, offsets[:-1]), np.maximum.reduceat(piece_high, offsets[:-1])
        which = pieces[several]
        inside = (least[which] >= low[several]) & (most[which] <= high[several])
        check(inside.all(), "pieces lie outside of their tests")
