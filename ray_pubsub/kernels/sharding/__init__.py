"""Kernels of the server's decisions: routes of texts, look-ups, merging of answers."""
