"""Random input for everything that reads bytes, texts or values of others. Seeded, so that what was found can be found again."""
