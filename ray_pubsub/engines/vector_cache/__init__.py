"""A cache between coding and matching: events that have the codes of an earlier one match what that one matched."""
