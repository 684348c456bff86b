"""Deliveries pushed to URLs: configuration, signatures, checks of addresses, retries and circuit breaking."""
