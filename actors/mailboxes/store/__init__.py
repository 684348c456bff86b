"""The mailboxes' store: deliveries, dead letters and the deduplication window on disk."""
