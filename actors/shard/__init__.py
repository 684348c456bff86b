"""The shard: a match index over some of the subscriptions, derived from the registry."""
