"""Which shard holds a subscription, which shards a batch must visit, and how their answers become one. Decisions only: nothing is sent."""
