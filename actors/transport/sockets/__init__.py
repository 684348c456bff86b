"""Unix sockets between the processes of one node: both ends, what is between them, and who may use them."""
