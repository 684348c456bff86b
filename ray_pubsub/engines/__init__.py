"""Ways to find the subscriptions that match a batch of events, behind one contract."""
