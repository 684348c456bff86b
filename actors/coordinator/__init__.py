"""The coordinator: a published batch is routed to shards, their matches are merged, prioritized and handed to mailboxes."""
