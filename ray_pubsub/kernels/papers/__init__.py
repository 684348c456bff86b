"""Kernels of the engines rein, dexin, gem and opindex, each after a paper."""
