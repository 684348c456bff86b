"""How the processes of a server call one another: remote classes, calls with deadlines, Unix sockets, messages."""
