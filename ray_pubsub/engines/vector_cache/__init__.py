"""A cache between coding and matching: events with equal codes have equal matches."""
