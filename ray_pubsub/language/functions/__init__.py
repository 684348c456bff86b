"""The functions of the language: the table of functions, and their meaning by subject."""
