"""A Ray cluster of two nodes, here on one machine: where the processes of a server are placed, and that matches are the same.

python -m examples.two_nodes [--subscriptions N]

On two machines the nodes are started by hand, and the rest is the same:

    ray start --head --port=6379                      on the first (RAY_AUTH_MODE=token; see docs/operating.md)
    ray start --address=FIRST:6379                    on the second
    ray_pubsub.start(shards=4, address="FIRST:6379")  from any program on either
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import ray_pubsub

if TYPE_CHECKING:
    from actors.client.server import Server

TEXT, EVENT = "a{attribute} >= {bound} or b = 'x{bound}'", {"a1": 30, "a5": 7, "b": "x3"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=2_000, help="how many (default 2,000)")
    count = parser.parse_args().subscriptions
    with two_nodes(), ray_pubsub.start(4, name="nodes") as server:
        show(server, [TEXT.format(attribute=number % 7, bound=number % 50) for number in range(count)])


@contextmanager
def two_nodes() -> Iterator[None]:
    """A cluster of this program, which is connected to it."""
    os.environ.pop("RAY_ADDRESS", None)
    # Other machines may reach the nodes, and who reaches a cluster without a token can run code on it.
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with tempfile.TemporaryDirectory(prefix="rp", dir="/tmp") as folder:  # short, for the paths of Ray's sockets
        os.environ["RAY_TMPDIR"] = folder
        ray = _ray()
        cluster = import_module("ray.cluster_utils").Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
        )
        try:
            cluster.add_node(num_cpus=1)
            cluster.wait_for_nodes()
            ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
            yield
        finally:
            ray.shutdown()
            cluster.shutdown()


def show(server: Server, texts: list[str]) -> None:
    ray = _ray()
    server.subscribe_many(range(len(texts)), texts, subscriber="desk")
    print(f"{len(ray.nodes())} nodes, {len(server.shards)} shards, {len(texts):,} subscriptions\n")
    nodes = {node["NodeID"]: f"node {number}" for number, node in enumerate(ray.nodes())}
    found = sorted(server.publish(EVENT, deliver=False)[0])  # the shards it visits have loaded what was added before
    places, held = ray._private.state.actors(), server.stats(hot=0).shards
    for number, shard in enumerate(server.shards):
        place = nodes[places[shard._actor_id.hex()]["Address"]["NodeID"]]
        print(f"  shard {number} on {place}: {held[number]['subscriptions']:,} subscriptions")
    index = ray_pubsub.MatchIndex()
    index.add_many(range(len(texts)), texts, atomic=True)
    wanted = sorted(index.match(EVENT))
    print(f"\nthe server finds {len(found)} matches, an index in this process the same: {found == wanted}")


def _ray() -> Any:
    """Not everything in it is typed; and it reads RAY_TMPDIR when it is imported."""
    return import_module("ray")


if __name__ == "__main__":
    main()
