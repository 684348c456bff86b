"""The HTTP interface of a server and its web console, for every client that is not a Python process of the Ray cluster."""
