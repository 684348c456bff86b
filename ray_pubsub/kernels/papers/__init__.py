"""Kernels of the papers' engines."""
