"""What a user of a running server holds: start, connect, publish, consume, load, and the results of each."""
