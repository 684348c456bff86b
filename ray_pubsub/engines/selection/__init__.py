"""Which engine a set of clauses gets: statistics of the clauses, constants of the machine, a cost model."""
