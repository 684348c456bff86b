"""Decides which shard holds a subscription and which shards a batch must visit, and merges their answers. Nothing is sent from here."""
