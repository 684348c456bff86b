"""The registry's store: subscriptions, rules, placement, versions and epochs in SQLite or PostgreSQL."""
