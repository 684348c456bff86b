"""Clauses in columns: tests as records, operands as order-preserving codes. What engines are built from."""
