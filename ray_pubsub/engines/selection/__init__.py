"""Chooses the engine for a set of clauses: statistics of the clauses, constants of the machine, a cost model."""
