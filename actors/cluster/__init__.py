"""Finding, joining or starting a Ray cluster."""
