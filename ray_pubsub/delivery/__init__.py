"""What waits to be delivered: by level, bounded, with deadlines, and how much of it left on time. Nothing here knows what is delivered."""
