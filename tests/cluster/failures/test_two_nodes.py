"""A cluster of two nodes, in a process of its own: who is placed where, matches across nodes, and what happens when one node is lost."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from actors.cluster.joining import ADDRESS_VARIABLE
from tests.cluster.joining_programs import begin, finish
from tests.temporary_postgres import TemporaryPostgres

ROOT = Path(__file__).parents[3]
PROGRAM = """
import contextlib, io, json, sys, time
import pyarrow as pa
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
import ray_pubsub
from ray_pubsub.errors import RayPubSubError

folder, url, root = json.loads(sys.argv[1])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
try:
    other = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    here = ray.get_runtime_context().get_node_id()

    # A node that the scheduler does not know of yet is passed over by what may also be elsewhere, as shards may.
    on_the_other = ray.remote(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(other.node_id, soft=False))
    for _ in range(600):
        try:
            ray.get(on_the_other(lambda: None).remote(), timeout=60)
            break
        except ray.exceptions.TaskUnschedulableError:
            time.sleep(0.1)

    def is_here(actor):
        return ray._private.state.actors()[actor._actor_id.hex()]["Address"]["NodeID"] == here

    def places(server):
        named = {"registry": server.registry, "mailboxes": server.mailboxes}
        named.update({f"shard {number}": shard for number, shard in enumerate(server.shards)})
        named.update({f"coordinator {number}": each for number, each in enumerate(server.coordinators)})
        return {role: is_here(each) for role, each in named.items()}

    def patient(call):
        ends = time.monotonic() + 120
        while True:
            try:
                return call()
            except RayPubSubError:
                if time.monotonic() > ends:
                    raise

    def wait_until(condition):
        ends = time.monotonic() + 60
        while not condition() and time.monotonic() < ends:
            time.sleep(0.1)  # Ray's own account of where actors are is behind

    alone = ray_pubsub.MatchIndex()
    texts = [f"a{number % 7} >= {number % 50} or b = 'x{number % 5}'" for number in range(300)]
    events = [{f"a{number % 7}": number % 60, "b": f"x{number % 11}"} for number in range(200)]
    few = events[:3]
    for number, text in enumerate(texts):
        alone.add(number, text)

    def wrong(server, given):
        found, wanted = server.publish(given, deliver=False), alone.match_many(given)
        return sum(sorted(found[place]) != sorted(wanted[place]) for place in range(len(given)))

    def in_a_folder(server):
        server.subscribe_many(pa.table({"id": range(300), "expression": texts}), subscriber="desk")
        before = places(server)
        mistakes = [wrong(server, given) for given in (events, few, few, events[:1], events[:1])]
        delivered = server.publish(events, idempotency_key="once").deliveries.delivered
        yield
        mistakes += patient(lambda: [wrong(server, given) for given in (events, few, few)])
        patient(lambda: server.subscribe("desk", "a0 = 1", id="later"))
        again = patient(lambda: server.publish(events, idempotency_key="once")).deliveries
        wait_until(lambda: all(places(server).values()))
        yield {"before": before, "after": places(server), "mistakes": mistakes, "delivered": delivered,
               "again": [again.delivered, again.duplicates], "kept": len(server.poll("desk", limit=100_000))}

    def in_a_database(server):
        server.subscribe("desk", "x > 5", id="a")
        delivered = server.publish([{"x": 6}, {"x": 7}], idempotency_key="once").deliveries.delivered
        moves = 0
        while is_here(server.registry) and moves < 20:
            ray.kill(server.registry, no_restart=False)
            patient(lambda: server.subscribe("desk", "x > 5", id="a"))
            moves += 1
        before = is_here(server.registry)
        yield
        patient(lambda: server.subscribe("desk", "x > 100", id="b"))
        again = patient(lambda: server.publish([{"x": 6}, {"x": 7}], idempotency_key="once")).deliveries
        later = patient(lambda: server.publish([{"x": 101}])).deliveries.delivered
        kept = sorted((each.subscription_id, each.event["x"]) for each in patient(lambda: server.poll("desk")))
        wait_until(lambda: is_here(server.registry))
        yield {"before": before, "after": is_here(server.registry), "delivered": delivered,
               "again": [again.delivered, again.duplicates], "later": later, "kept": kept}

    def on_the_lost_node():
        @ray.remote(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(other.node_id, soft=False))
        def begin():
            server = ray_pubsub.start(1, folder + "-lost", "lost", lease=1.0)
            server.subscribe("desk", "x > 5", id="a")
            delivered = server.publish({"x": 6}).deliveries.delivered
            server.close()
            return delivered

        delivered = ray.get(begin.remote(), timeout=120)
        server = ray_pubsub.connect("lost")
        before = places(server)
        yield
        errors = {}
        for name, call in (
            ("subscribe", lambda: server.subscribe("desk", "x > 7", id="b")),
            ("publish", lambda: server.publish({"x": 6})),
            ("poll", lambda: server.poll("desk")),
            ("connect", lambda: ray_pubsub.connect("lost")),
        ):
            ends = time.monotonic() + 60
            while time.monotonic() < ends:
                try:
                    call()
                except RayPubSubError as error:
                    errors[name] = str(error)
                    if getattr(error, "gone", name == "connect"):
                        break
                time.sleep(0.1)
        with patient(lambda: ray_pubsub.start(1, folder + "-lost", "lost", lease=1.0)) as again:
            kept = [each.event["x"] for each in again.poll("desk")]
            yield {"before": before, "delivered": delivered, "errors": errors, "kept": kept,
                   "texts": [each.expression for each in again.subscriptions()]}

    def example(server):
        sys.path.insert(0, root)
        from examples import two_nodes

        two_nodes.two_nodes, start = contextlib.nullcontext, ray_pubsub.start
        ray_pubsub.start, sys.argv = lambda *_, **__: contextlib.nullcontext(server), ["", "--subscriptions", "300"]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            two_nodes.main()
        ray_pubsub.start = start
        return said.getvalue()

    with (
        ray_pubsub.start(3, folder, "nodes", coordinators=2, lease=2.0) as nodes,
        ray_pubsub.start(1, store=url, name="anywhere", lease=1.0) as anywhere,
    ):
        said = example(nodes)
        running = {"folder": in_a_folder(nodes), "database": in_a_database(anywhere), "lost": on_the_lost_node()}
        for each in running.values():
            next(each)
        cluster.remove_node(other, allow_graceful=False)
        print(json.dumps({"example": said, **{name: next(each) for name, each in running.items()}}))
finally:
    ray.shutdown()
    cluster.shutdown()
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two servers on one cluster, which loses a node: one with its data in a folder, one with them in a database."""
    folder = tmp_path_factory.mktemp("nodes")
    with TemporaryPostgres() as postgres:
        return run(PROGRAM, str(folder / "data"), postgres.url(), str(ROOT), folder=folder)


def test_the_example_of_two_nodes_runs(found: dict[str, Any]) -> None:
    """Its `main`, on the cluster and with the server of this program."""
    lines = found["example"].splitlines()
    assert lines[0] == "2 nodes, 3 shards, 300 subscriptions"
    assert {line.split()[4] for line in lines[2:5]} == {"0:", "1:"}
    assert lines[-1].endswith("an index in this process the same: True") and max(map(len, lines)) <= 80


def test_the_example_of_two_nodes_starts_its_own_cluster() -> None:
    """As a reader starts it: without a token of Ray's in the environment, although other machines may reach the nodes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    command = [sys.executable, "-m", "examples.two_nodes", "--subscriptions", "300"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert sum(map(int, re.findall(r"shard . on node .: (\d+) subscriptions", done.stdout))) == 300
    assert "an index in this process the same: True" in done.stdout and done.stderr == ""


def test_the_node_of_the_registry_is_lost_and_its_data_are_in_a_database(found: dict[str, Any]) -> None:
    seen = found["database"]
    assert not seen["before"], "the registry was on the node that was lost"
    assert seen["after"], "and is on the one that is left"
    assert (seen["delivered"], seen["again"], seen["later"]) == (2, [0, 2], 2)
    assert seen["kept"] == [["a", 6], ["a", 7], ["a", 101], ["b", 101]]


def test_two_nodes_and_the_loss_of_one(found: dict[str, Any]) -> None:
    seen = found["folder"]
    before, after = seen["before"], seen["after"]
    assert not all(before.values()), "some process was on the node that was lost"
    assert before["registry"] and before["mailboxes"], "what has files stays where they are"
    assert all(after.values()), f"on the node that is left: {after}"
    assert not any(seen["mistakes"])
    assert seen["delivered"] > 0
    assert seen["again"] == [0, seen["delivered"]], "delivered once, although a node was lost in between"
    assert seen["kept"] == seen["delivered"]


def test_the_node_of_the_registry_and_its_folder_is_lost(found: dict[str, Any]) -> None:
    """The error says what to do, and that works: here the folder is still there, as on a volume."""
    seen = found["lost"]
    assert not seen["before"]["registry"] and not seen["before"]["coordinator 0"]
    assert "no server 'lost' runs" in seen["errors"].pop("connect")
    assert {*seen["errors"]} == {"subscribe", "publish", "poll"}
    for text in seen["errors"].values():
        assert "start() it again with its data_dir" in text and "restore=" in text
    assert (seen["delivered"], seen["kept"], seen["texts"]) == (1, [6], ["x > 5"])


def run(program: str, *arguments: str, folder: Path) -> dict[str, Any]:
    ray_folder = tempfile.mkdtemp(prefix="rp", dir="/tmp")  # short, for the paths of sockets
    try:
        (found,) = finish(
            begin(
                program,
                *arguments,
                folder=folder,
                **{ADDRESS_VARIABLE: None, "RAY_TMPDIR": ray_folder},
                # Ray takes a quarter of a minute to believe that a node is lost, which is of no interest here.
                RAY_health_check_period_ms="300",
                RAY_health_check_failure_threshold="3",
            )
        )
    finally:
        shutil.rmtree(ray_folder, ignore_errors=True)
    return dict(found)
