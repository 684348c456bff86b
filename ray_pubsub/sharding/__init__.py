"""Which shard holds a subscription, which shards a batch must visit, and how their answers are merged. Pure decisions: nothing is sent
from here."""
