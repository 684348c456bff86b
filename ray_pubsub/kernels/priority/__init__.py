"""Kernels of the priority rules: bins, signatures, Bloom filters."""
