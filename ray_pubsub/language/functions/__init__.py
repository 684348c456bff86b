"""The functions of the language: a table of them, and what they mean, by subject."""
