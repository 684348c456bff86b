"""Compiled loops. Arrays in, arrays out: only numpy and numba are imported here."""
