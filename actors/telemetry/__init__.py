"""Measurements of running processes: latencies, rates, memory, and their export as Ray metrics."""
