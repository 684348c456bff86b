"""What events, values and results are. Nothing here knows how they are matched."""
