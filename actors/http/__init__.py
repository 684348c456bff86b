"""The HTTP door of a server, and its web console, for everybody who is not a Python process of the Ray cluster."""
