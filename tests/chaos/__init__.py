"""A workload whose every answer is checked while a server's processes are killed: used by tests and by `python -m benchmarks chaos`."""
