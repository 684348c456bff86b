"""Saved indexes: one checked file that holds subscriptions and built segments."""
