"""Benchmarks that start a server, or its stores and mailboxes."""
