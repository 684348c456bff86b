"""Communication between the processes of a server: remote classes, calls with deadlines, Unix sockets, messages."""
