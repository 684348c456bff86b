"""Finds, joins or starts a Ray cluster."""
