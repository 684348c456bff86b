"""A cluster of two nodes loses one: how long until its shards are on the other, and whether every publication is exact throughout."""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

from rich.console import Console

import ray_pubsub
from actors.client.server import Server
from ray_pubsub.errors import RayPubSubError
from tests.chaos.account import Account
from tests.chaos.processes import roles
from tests.chaos.workload import Workload

__all__ = ["main"]

DEADLINE = 120.0


def nodes_of(server: Server) -> dict[str, str]:
    """Returns which node each process is on."""
    import ray

    found: dict[str, Any] = ray._private.state.actors()
    return {
        role: str(found[handle._actor_id.hex()]["Address"]["NodeID"]) for role, handle in sorted(roles(server).items())
    }


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks node_loss", description=__doc__)
    parser.add_argument("--coordinators", type=int, default=2)
    given = parser.parse_args(arguments)
    import ray
    from ray.cluster_utils import Cluster

    console = Console()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        other = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, namespace="ray_pubsub", log_to_driver=False)
        here = str(ray.get_runtime_context().get_node_id())
        with (
            tempfile.TemporaryDirectory() as folder,
            ray_pubsub.start(4, folder, "nodes", coordinators=given.coordinators, lease=2.0) as server,
        ):
            before = nodes_of(server)
            there = [role for role, node in before.items() if node != here]
            console.print(f"on the other node: {', '.join(there) or 'nothing'}")
            workload = Workload(server, Account())
            with workload.running():
                workload.progressed()
                lost = time.monotonic()
                cluster.remove_node(other, allow_graceful=False)
                for number in range(1000):
                    try:
                        server.publish({"a": number % 24, "b": "x1"}, deliver=False)
                        break
                    except RayPubSubError as error:
                        workload.account.erred("publish", error)
                    if time.monotonic() - lost > DEADLINE:
                        raise SystemExit("it never published again")
                took = time.monotonic() - lost
                workload.progressed(timeout=DEADLINE)
            problems = workload.check()
            after = nodes_of(server)
        console.print(f"publishes again after {took:.1f} s; errors told: {dict(workload.account.errors) or 'none'}")
        if not any(role.startswith("shard") for role in there):
            problems.append("no shard was on the other node")
        pinned = [role for role in ("registry", "mailboxes") if role in before]
        problems += [f"{role} is not where the data is" for role in pinned if {before[role], after[role]} != {here}]
        problems += [f"{role} is on a node that is gone" for role, node in after.items() if node != here]
        if problems:
            raise SystemExit("\n".join(problems[:20]))
        console.print(
            f"{len(workload.account.publications):,} publications, none wrong; everything is on the node that is left"
        )
    finally:
        ray.shutdown()
        cluster.shutdown()
