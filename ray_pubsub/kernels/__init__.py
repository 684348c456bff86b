"""Compiled loops. Arrays in, arrays out: only numpy, numba and llvmlite are imported here."""
