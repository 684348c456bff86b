"""Events as JSON texts: framing, the keys that matter, and the batch that is made of them."""
