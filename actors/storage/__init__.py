"""What every durable file of a server shares: the data folder and how SQLite files are opened."""
