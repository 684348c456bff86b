"""Back-tests: how often subscriptions would have matched the events of a Spark DataFrame. No server is needed."""
