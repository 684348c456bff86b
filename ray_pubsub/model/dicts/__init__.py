"""Dictionaries as batches: one event, many sparse ones, and the values of one attribute as columns."""
