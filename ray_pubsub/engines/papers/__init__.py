"""The engines of the papers: rein, dexin, gem and opindex."""
