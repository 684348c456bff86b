"""The default engine for dense clauses: clustered bucket bitmaps, and transposed masks for batches."""
