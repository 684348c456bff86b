"""Ray actors: registry, shards, coordinators, mailboxes. `ray_pubsub` never imports this package."""
