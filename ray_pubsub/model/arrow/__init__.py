"""Reads Arrow data: columns of events, texts and decimals, and tables of any kind."""
