"""JSON texts: bytes to cells, without a Python object per value."""
