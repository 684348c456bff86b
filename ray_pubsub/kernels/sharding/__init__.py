"""Kernels that merge the answers of shards."""
