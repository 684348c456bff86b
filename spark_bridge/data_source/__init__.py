"""format("ray_pubsub"): a sink that publishes a DataFrame's rows, and a source of a subscriber's waiting deliveries."""
