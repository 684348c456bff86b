"""Computed attributes: functions of texts, flags of lists and of places."""
