"""Computed attributes: terms over attributes, evaluated once per batch, and flags of lists."""
