"""The default engine for sparse clauses: each clause is found through one of its tests, the pivot."""
