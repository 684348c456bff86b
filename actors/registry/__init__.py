"""The registry: the one source of truth about subscriptions and rules. It decides their placement."""
