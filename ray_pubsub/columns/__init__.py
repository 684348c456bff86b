"""Clauses as columns of integers: tests are records, operands are order-preserving codes. Engines are built from these columns."""
