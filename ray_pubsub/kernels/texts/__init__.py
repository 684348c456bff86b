"""From the bytes of many expressions to clause records, without a Python object for a text, a token or a predicate."""
