"""Kernels of the index: the tail, single events, merging of hits, id tables."""
