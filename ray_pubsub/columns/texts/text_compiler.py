"""Compiles many texts to clauses with kernels for tokens, predicates, normal form and records, whatever the shapes of the texts.

No Python runs per text, only per distinct attribute, string and pattern. Texts that the kernels cannot read, because they are wrong,
exceed a limit or are merely unusual, are left to language/parser.py and clause_compiler.py; `left` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.opaque.opaque_sets import OpaqueSets
from ray_pubsub.columns.test_records import TEST
from ray_pubsub.columns.texts.computed_sets import SetComputer, SetList
from ray_pubsub.columns.texts.known_patterns import KnownPatterns
from ray_pubsub.columns.texts.parsed_texts import ParsedTexts
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.columns.code_space import ClauseRows
from ray_pubsub.kernels.texts.normal_form import (
    CLAUSES,
    CONJUNCTIVE,
    DISJUNCTIVE,
    NOT_MADE,
    WEAKENED,
    Work,
    normalize_texts,
    room_for,
)
from ray_pubsub.kernels.texts.records import count_records, write_records
from ray_pubsub.settings import Limits

__all__ = ["CompiledTexts", "compile_texts", "kernels_are_loaded", "portions"]

CHARACTERS_AT_ONCE, TEXTS_AT_ONCE = 1 << 23, 1 << 16
"""The size of a portion: large enough that strings which repeat are cut out and numbered once, small enough to keep scratch memory low."""
LEAST_ROOM, MOST_AHEAD = 1 << 16, 1 << 20
ROOM_AHEAD = 1.1
"""Room for records is made for all texts at once: this times what those need that were compiled."""


@dataclass(frozen=True, slots=True)
class CompiledTexts:
    """The clauses of many texts, in a vocabulary of their own. The owner of a clause is its text's number."""

    vocabulary: Vocabulary
    table: ClauseTable
    repeated: NDArray[np.bool_]
    """Texts with several clauses, of which more than one may hold."""
    conjunctive: NDArray[np.bool_]
    """Texts all of whose clauses must hold."""
    weakened: NDArray[np.bool_]
    """Texts whose clauses only find candidates: the expression decides."""
    left: NDArray[np.int64]
    """Texts that were not compiled."""


def compile_texts(
    texts: Sequence[str], limits: Limits, *, runs: bool = True, ignore_case: bool = False
) -> CompiledTexts:
    """Compiles texts, and reports which texts must be compiled one by one. Without `runs`, every test is one record."""
    vocabulary, sets = Vocabulary(), SetList()
    patterns = KnownPatterns(vocabulary)
    form = np.full(len(texts), NOT_MADE, np.uint8)
    rows = _Rows(len(texts))
    for start, stop in portions(texts):
        parsed = ParsedTexts(texts[start:stop], limits, patterns, ignore_case=ignore_case)
        _write_clauses(parsed, limits, sets, form[start:stop], start, runs, rows)
    found = rows.table()
    found.opaque = sets.joined(found.tests[: found.test_count])
    clauses = np.bincount(found.owners, minlength=len(texts))
    return CompiledTexts(
        vocabulary,
        found,
        (clauses > 1) & (form == DISJUNCTIVE),
        (form == CONJUNCTIVE) | (form == WEAKENED),
        form == WEAKENED,
        np.flatnonzero(form == NOT_MADE),
    )


def kernels_are_loaded() -> bool:
    """Returns whether this process has already compiled the kernels or read them from disk."""
    return bool(write_records.signatures)  # type: ignore[attr-defined]


class _Rows:
    """The clauses of texts, as they are written. All records together are as large as the rest, so they are not joined from parts."""

    def __init__(self, texts: int) -> None:
        self._texts, self._filled = texts, 0
        self._owners: list[NDArray[np.int64]] = []
        self._offsets = [np.zeros(1, np.int64)]
        self._records = np.empty(0, TEST)

    def more(self, clauses: int, records: int, text: int) -> ClauseRows:
        """Returns room for the clauses of the texts before `text` that have none yet."""
        needed = self._filled + records
        if needed > len(self._records):
            larger = np.empty(max(needed, int(ROOM_AHEAD * needed * self._texts / text)), TEST)
            larger[: self._filled] = self._records[: self._filled]
            self._records = larger
        rows = ClauseRows(
            np.empty(clauses, np.int64), np.zeros(clauses + 1, np.int64), self._records[self._filled : needed]
        )
        self._owners.append(rows.owners)
        self._offsets.append(rows.offsets)
        self._filled = needed
        return rows

    def table(self) -> ClauseTable:
        starts = np.cumsum([offsets[-1] for offsets in self._offsets])
        parts = [offsets[1:] + start for offsets, start in zip(self._offsets[1:], starts, strict=False)]
        owners, offsets = (
            np.concatenate([first, *rest])
            for first, rest in ((np.empty(0, np.int64), self._owners), (self._offsets[0], parts))
        )
        return ClauseTable(len(owners), owners, offsets, self._records, OpaqueSets.empty())


def _write_clauses(
    parsed: ParsedTexts, limits: Limits, sets: SetList, form: NDArray[np.uint8], first_owner: int, runs: bool, rows: _Rows
) -> None:  # fmt: skip
    columns = parsed.columns
    sizes = np.diff(columns.leaf_offsets)
    largest = int(sizes.max(initial=0))
    longest = int(np.diff(columns.program_offsets).max(initial=0))
    # Room for the largest text, and enough for many others: the Python code between two calls of the kernel takes a millisecond.
    room = room_for(largest, limits.clauses) + max(LEAST_ROOM, min(4 * len(parsed.leaves), MOST_AHEAD))
    work = Work.with_room(room, longest, len(parsed.attributes))
    computer = SetComputer(parsed, sets, runs)
    text = 0
    while text < len(form):
        offsets = np.zeros(len(form) - text + 1, np.int64)
        after = normalize_texts(columns, parsed.read, text, len(form), limits.clauses, work, form, offsets)
        offsets, here = offsets[: after - text + 1], form[text:after]
        clauses = int(work.state[CLAUSES])
        computed = computer.compute(work)
        counts = np.empty(clauses, np.int64)
        count_records(work.nodes, work.found.starts, work.found.tests, offsets, here, computed, counts)
        kept = counts >= 0
        made = rows.more(int(kept.sum()), int(counts[kept].sum()), first_owner + after)
        write_records(columns, work, offsets, here, counts, computed, made)
        made.owners[:] += first_owner + text
        text = after


def portions(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Splits the texts into ranges that are compiled together."""
    start, size = 0, 0
    for number, text in enumerate(texts):
        size += len(text) if isinstance(text, str) else 0
        if size >= CHARACTERS_AT_ONCE or number - start >= TEXTS_AT_ONCE:
            yield start, number + 1
            start, size = number + 1, 0
    if start < len(texts):
        yield start, len(texts)
