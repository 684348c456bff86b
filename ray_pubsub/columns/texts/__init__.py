"""Compiles many expressions at once, from text to clauses, in columns."""
