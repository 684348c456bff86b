"""The coordinator: routes a published batch to the shards, merges their matches, assigns priorities and hands the deliveries to the
mailboxes."""
