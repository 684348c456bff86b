"""Deliveries pushed over open connections: server-sent events, and who is woken when something arrives."""
