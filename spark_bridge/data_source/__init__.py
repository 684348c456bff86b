"""format("ray_pubsub"): a sink that publishes a DataFrame's rows, and a source of what waits for a subscriber."""
