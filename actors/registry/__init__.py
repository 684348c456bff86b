"""The registry: the one source of truth about subscriptions and rules, and where placement is decided."""
