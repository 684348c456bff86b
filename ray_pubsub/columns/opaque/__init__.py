"""Tests that a record cannot express, in columns: sets of values, and patterns that strings must match."""
