"""Deliveries pushed over open connections: server-sent events, and the wake-ups when deliveries arrive."""
