"""A Ray cluster of two nodes, here on one machine: where the processes of a server are placed, and that matches are the same.

python -m examples.two_nodes [--subscriptions N]

On two machines the nodes are started by hand, and the rest is the same:

    ray start --head --port=6379                      on the first (RAY_AUTH_MODE=token; see docs/operating.md)
    ray start --address=FIRST:6379                    on the second
    ray_pubsub.start(shards=4, address="FIRST:6379")  from any program on either
"""

from __future__ import annotations

import argparse
import os
import tempfile
from importlib import import_module
from typing import Any

import ray_pubsub

TEXT, EVENT = "a{attribute} >= {bound} or b = 'x{bound}'", {"a1": 30, "a5": 7, "b": "x3"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=2_000)
    count = parser.parse_args().subscriptions
    os.environ.pop("RAY_ADDRESS", None)
    with tempfile.TemporaryDirectory(prefix="rp", dir="/tmp") as folder:  # short, for the paths of Ray's sockets
        os.environ["RAY_TMPDIR"] = folder
        _on_two_nodes(count)


def _on_two_nodes(count: int) -> None:
    ray: Any = import_module("ray")  # not everything in it is typed
    cluster = import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        texts = [TEXT.format(attribute=number % 7, bound=number % 50) for number in range(count)]
        with ray_pubsub.start(4, name="nodes") as server:
            server.subscribe_many(range(count), texts, subscriber="desk")
            print(f"{len(ray.nodes())} nodes, {len(server.shards)} shards, {count:,} subscriptions\n")
            nodes = {node["NodeID"]: f"node {number}" for number, node in enumerate(ray.nodes())}
            places = ray._private.state.actors()
            for number, shard in enumerate(server.shards):
                place = nodes[places[shard._actor_id.hex()]["Address"]["NodeID"]]
                held = server.stats(hot=0).shards[number]["subscriptions"]
                print(f"  shard {number} on {place}: {held:,} subscriptions")
            index = ray_pubsub.MatchIndex()
            index.add_many(range(count), texts, atomic=True)
            found = sorted(server.publish(EVENT, deliver=False)[0])
            print(
                f"\nthe server finds {len(found)} matches, an index in this process the same: {found == sorted(index.match(EVENT))}"
            )
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
