"""Hypothesis draws the same examples on every run, so that a failure is a failure of the code."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("repeatable")
