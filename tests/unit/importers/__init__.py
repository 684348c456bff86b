"""Rules of other systems."""
