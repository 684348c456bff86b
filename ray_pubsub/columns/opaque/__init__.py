"""Tests that a record cannot express, in columns: sets of values, and the patterns that strings must match."""
