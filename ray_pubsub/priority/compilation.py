"""Compiles rules to clauses for the instantiation engine, and finds the rules that it cannot handle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from ray_pubsub.columns.clause_compiler import Compiler
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.decoding import join_tables, move_table
from ray_pubsub.columns.test_records import Form
from ray_pubsub.columns.texts.text_compiler import compile_texts
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.index.bulk.text_batch import are_worth_compiling
from ray_pubsub.index.storage.saved_texts import SavedText
from ray_pubsub.language.shapes import Expression, ShapeCache
from ray_pubsub.language.terms import is_computed
from ray_pubsub.priority.confirmation import Source
from ray_pubsub.priority.instantiation.boxes import Refusal
from ray_pubsub.settings import Limits

__all__ = ["RuleCompiler"]

Written = tuple[int, Expression | SavedText]
"""A rule that is a text, under its number."""
MOST_PIECES = 1024
"""A rule with a test of more intervals than this is matched exactly: a box of signatures for each would take seconds to work out."""


class RuleCompiler:
    """Compiles clause tables whose owners are rule numbers. One thread at a time."""

    def __init__(self, limits: Limits) -> None:
        self.vocabulary = Vocabulary()
        self._limits = limits
        self._shapes = ShapeCache(limits)
        self._compiler = Compiler(self.vocabulary, limits, runs=False)

    def compile(self, numbers: Sequence[int], sources: Sequence[Source]) -> tuple[ClauseTable, dict[int, str]]:
        """Returns the clauses of rules, and the rules that must be matched exactly, with the reason."""
        self._compiler.start_table()
        table = self._compiler.table
        refused: dict[int, str] = {}
        texts = self.vocabulary.attributes.texts
        tables: dict[int, tuple[PredicateTable, list[int]]] = {}
        written: list[Written] = []
        for number, source in zip(numbers, sources, strict=True):
            if isinstance(source, PredicateTable):
                tables.setdefault(id(source), (source, []))[1].append(number)
            else:
                written.append((number, source))
        compiled_parts: list[ClauseTable] = []
        if are_worth_compiling([source.text for _, source in written]):
            part, written = self._compile_together(written, refused)
            compiled_parts.append(part)
        for number, alone in written:
            expression = alone if isinstance(alone, Expression) else self._shapes.parse(alone.text)
            compiled = self._compiler.compile(expression)
            if compiled.residual or compiled.conjunctive:
                refused[number] = Refusal.NORMAL_FORM
            elif any(is_computed(texts[record[0]]) for records in compiled.clauses for record in records):
                refused[number] = Refusal.TERM
            else:
                sets = [record[5] for records in compiled.clauses for record in records if record[1] == Form.OPAQUE]
                if any(map(table.opaque.has_patterns, sets)):
                    refused[number] = Refusal.PATTERN
                elif any(map(table.opaque.is_larger, sets, repeat(MOST_PIECES))):
                    refused[number] = Refusal.BOXES
                else:
                    for records in compiled.clauses:
                        table.append(number, records)
        parts = [*compiled_parts, *([table] if table.count else [])]
        parts += [rules.clauses(np.array(chosen), self.vocabulary) for rules, chosen in tables.values()]
        return parts[0] if len(parts) == 1 else join_tables(parts), refused

    def _compile_together(self, written: list[Written], refused: dict[int, str]) -> tuple[ClauseTable, list[Written]]:
        """Returns the clauses of texts that kernels compile, and the texts that they leave."""
        compiled = compile_texts([source.text for _, source in written], self._limits, runs=False)
        table, sets = compiled.table, compiled.table.opaque
        owners, opaque = table.owners[: table.count], table.tests["form"][: table.test_count] & Form.OPAQUE != 0
        owner_of_record = np.repeat(owners, np.diff(table.offsets[: table.count + 1]))
        owner_of_test = owner_of_record[opaque]
        number = table.tests["low_whole"][: table.test_count][opaque]
        exact = np.zeros(len(written), np.bool_)
        names = compiled.vocabulary.attributes
        computed = np.zeros(len(names), np.bool_)
        computed[names.computed] = True
        on_terms = computed[table.tests["attribute"][: table.test_count]]
        for chosen, reason in (
            (owner_of_test[np.diff(sets.piece_offsets)[number] > MOST_PIECES], Refusal.BOXES),
            (owner_of_test[np.diff(sets.pattern_offsets)[number] > 0], Refusal.PATTERN),
            (owner_of_record[on_terms], Refusal.TERM),
            (np.flatnonzero(compiled.conjunctive), Refusal.NORMAL_FORM),
        ):
            exact[chosen] = True
            refused.update((written[place][0], reason) for place in np.unique(chosen).tolist())
        if exact.any():
            table = table.take(np.flatnonzero(~exact[owners]))
        numbers = np.array([number for number, _ in written], np.int64)
        moved = move_table(table, numbers, compiled.vocabulary, self.vocabulary)
        return moved, [written[place] for place in compiled.left.tolist()]
