"""The client side of a running server: start and connect, publish, consume, load subscriptions, and the results of each."""
