"""Conjunctions of disjunctions that are too large to multiply out into clauses."""
