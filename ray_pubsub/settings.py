"""Named limits on what one subscription or event may be, each reported by name when it is exceeded."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ray_pubsub.errors import SettingError

__all__ = ["EVENT_DEPTH", "LIST_ELEMENTS", "MADE_TEXT", "Limits"]

LIST_ELEMENTS = 100_000
"""Elements of one list in an event. A longer one cannot be used."""
EVENT_DEPTH = 32
"""Dictionaries and lists inside each other in an event."""
MADE_TEXT = 100_000
"""Characters of a text that `||`, `concat` or `replace` makes. A longer one is unknown: a few nested calls of `replace` would
fill the memory."""
DEEPEST, DEEPEST_TERM = 200, 50


@dataclass(frozen=True, slots=True)
class Limits:
    """How large one subscription may be. The defaults admit every hand-written rule and stop generated runaways."""

    text_length: int = 1_000_000
    """Characters of an expression's text."""
    nesting_depth: int = 100
    """Levels of parentheses, `not`, `and` and `or` inside each other."""
    leaves: int = 10_000
    """Predicates in one expression."""
    clauses: int = 64
    """Conjunctions after normalisation; beyond, the expression is kept as a conjunction of disjunctions."""
    set_size: int = 100_000
    """Constants in one `in (…)`."""
    pattern_length: int = 1_000
    """Characters of one `like` or `regexp` pattern."""
    word_length: int = 1_000
    """Characters of one attribute's name or one number."""
    term_size: int = 200
    """Functions, operators, attributes and constants in one term."""
    term_depth: int = 20
    """Functions and operators inside each other."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SettingError(f"Limits.{field.name}", f"must be a whole number of at least 1, not {value!r}")
        if self.term_depth > DEEPEST_TERM and self.term_depth < 1 << 40:
            raise SettingError(
                "Limits.term_depth", f"must be at most {DEEPEST_TERM}: terms are walked on Python's stack"
            )
        if self.nesting_depth > DEEPEST:
            raise SettingError(
                "Limits.nesting_depth", f"must be at most {DEEPEST}: expressions are walked on Python's stack"
            )
