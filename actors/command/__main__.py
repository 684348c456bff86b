"""python -m actors.command: the same as the console script `ray-pubsub`."""

from actors.command.entry import main

main()
