"""A server's stores in one process, crashed at every place where something is written, and compared with a model after each recovery."""
