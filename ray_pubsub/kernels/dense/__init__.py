"""Kernels of the dense engine."""
