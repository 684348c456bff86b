"""Rules to clauses: what the instantiation engine reads, and which rules have no clauses it could read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ray_pubsub.columns.clause_table import ClauseTable, Form
from ray_pubsub.columns.decoding import join_tables
from ray_pubsub.columns.recipes import Compiler
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.priority.boxes import Refusal
from ray_pubsub.priority.confirmation import Source
from ray_pubsub.priority.rule_table import RuleTable
from ray_pubsub.settings import Limits

__all__ = ["RuleCompiler"]


class RuleCompiler:
    """Makes clause tables whose owners are rule numbers. One thread at a time."""

    def __init__(self, limits: Limits) -> None:
        self.vocabulary = Vocabulary()
        self._compiler = Compiler(self.vocabulary, limits)

    def compile(self, numbers: Sequence[int], sources: Sequence[Source]) -> tuple[ClauseTable, dict[int, str]]:
        """The clauses of rules, and the rules that must be matched exactly, with the reason."""
        self._compiler.start_table()
        table = self._compiler.table
        refused: dict[int, str] = {}
        tables: dict[int, tuple[RuleTable, list[int]]] = {}
        for number, source in zip(numbers, sources, strict=True):
            if isinstance(source, RuleTable):
                tables.setdefault(id(source), (source, []))[1].append(number)
                continue
            compiled = self._compiler.compile(source)
            if compiled.residual or compiled.conjunctive:
                refused[number] = Refusal.NORMAL_FORM
            elif any(
                record[1] == Form.OPAQUE and table.opaque[record[5]][1].patterns
                for records in compiled.clauses
                for record in records
            ):
                refused[number] = Refusal.PATTERN
            else:
                for records in compiled.clauses:
                    table.append(number, records)
        parts = [table] if table.count or not tables else []
        parts += [rules.clauses(np.array(chosen), self.vocabulary) for rules, chosen in tables.values()]
        if len(parts) == 1:
            return parts[0], refused
        return join_tables(parts, [np.ones(part.count, dtype=bool) for part in parts]), refused
