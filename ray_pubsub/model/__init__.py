"""Events, values and results. Nothing here depends on how events are matched."""
