"""The live index: subscriptions by id over an engine, bulk input, explanations, files."""
