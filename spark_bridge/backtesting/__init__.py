"""How often subscriptions would have matched the events of a Spark DataFrame; needs no server."""
