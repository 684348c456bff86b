"""Kernels that turn texts, operands and values into codes and back."""
