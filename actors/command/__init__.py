"""The command `ray-pubsub`, for people who use an index or a server from a terminal."""
