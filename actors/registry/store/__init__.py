"""The registry on disk: subscriptions, rules, placement, versions and epochs in SQLite."""
