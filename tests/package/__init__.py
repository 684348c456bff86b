"""The wheel and the sdist: what is in them, and that they work where nothing else is."""
