"""Bulk input: subscriptions as tables of intervals, in columns throughout."""
