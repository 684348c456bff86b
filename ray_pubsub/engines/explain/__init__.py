"""How an event was matched: plans and traces for `explain`."""
