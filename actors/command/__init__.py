"""The command `ray-pubsub`: what a person does with an index or a server from a terminal."""
