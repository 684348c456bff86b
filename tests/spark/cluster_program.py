"""Run in a process of its own by test_lost_cluster.py: a Ray cluster at a given port with a server in it, both of which end with this
process, however it ends.

cluster_program.py PORT FOLDER
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    port, folder = sys.argv[1:]
    os.environ["RAY_GCS_SERVER_PORT"] = port  # as Ray's own ray.init has it; there is no argument for it
    import ray_pubsub

    with ray_pubsub.start(1, folder, "away", address="local") as server:
        server.subscribe("away", "away_x >= 500", id="away-1")
        print(server.address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
