"""Kernels of the pivot engine and of conjunctions of disjunctions."""
