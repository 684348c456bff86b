"""Computed attributes: terms over attributes, evaluated once per batch, and the flags of lists."""
