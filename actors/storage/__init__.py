"""The common base of a server's stores: the data folder, SQLite files and PostgreSQL."""
