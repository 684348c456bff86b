"""Priorities: rules with levels, precomputed as signatures in Bloom filters, so that an event's level is found by look-ups."""

from ray_pubsub.priority.discretizer import Bins, Categories, Function, Quantiles, Steps
from ray_pubsub.priority.rules import PriorityRules

__all__ = ["Bins", "Categories", "Function", "PriorityRules", "Quantiles", "Steps"]
