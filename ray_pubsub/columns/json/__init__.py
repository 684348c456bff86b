"""Events as JSON texts: framing, the keys that subscriptions test, and conversion to a batch."""
