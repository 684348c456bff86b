"""Getting to a cluster, with real ones."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from actors.cluster.joining import Joined, join
from ray_pubsub.errors import ClusterError
from tests.cluster.joining_programs import JOINING, REFUSED, begin, finish, finish_with_errors


def test_a_connection_that_exists_is_used_and_left_alone(cluster: Joined) -> None:
    import ray

    for start in (True, False):
        joined = join(start=start)
        assert (joined.address, joined.node_id) == (cluster.address, cluster.node_id)
        assert not joined.started and not joined.connected
        joined.leave()
    assert ray.is_initialized()
    assert join(cluster.address, start=False) == join("auto", start=False)


def test_the_tests_are_reachable_from_this_machine_only(cluster: Joined) -> None:
    """Ray binds to the loopback interface exactly if this is the node's address."""
    assert cluster.address.startswith("127.0.0.1:")


@pytest.mark.parametrize("address", ["local", "127.0.0.1:1"])
def test_a_process_is_part_of_one_cluster(cluster: Joined, address: str) -> None:
    with pytest.raises(ClusterError, match=f"connected to the cluster {cluster.address} already") as caught:
        join(address, start=True)
    assert caught.value.address == address


def test_ray_client_is_refused(cluster: Joined) -> None:
    with pytest.raises(ClusterError, match="host:6379"):
        join("ray://127.0.0.1:10001", start=False)


def test_actors_are_part_of_the_cluster(cluster: Joined) -> None:
    import ray

    def inside() -> Joined:
        return join(start=False)

    joined = ray.get(ray.remote(num_cpus=0)(inside).remote(), timeout=60)
    assert joined.address == cluster.address
    assert not joined.connected


def test_another_process_finds_the_cluster(cluster: Joined, tmp_path: Path) -> None:
    """By its address, by RAY_ADDRESS, and by what `ray start` has recorded, whatever else runs on this machine; the token is sent. One that
    nobody named is reported on the terminal, in one line; one that was asked for is not."""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(cluster.address)
    recorded = {"RAY_TMPDIR": str(tmp_path), "RAY_ADDRESS": None, "RAY_AUTH_MODE": None}
    programs = [
        begin(JOINING, None, False, folder=tmp_path, **recorded),
        begin(JOINING, "auto", True, folder=tmp_path, **recorded),
        begin(JOINING, None, True, folder=tmp_path),
        begin(JOINING, cluster.address, False, folder=tmp_path, RAY_ADDRESS=None, RAY_AUTH_MODE=None),
    ]
    found, reported = finish_with_errors(*programs)
    for joined in found:
        assert (joined["address"], joined["node_id"]) == (cluster.address, cluster.node_id)
        assert joined["connected"] and not joined["started"]
    assert [text.count("\n") for text in reported] == [1, 0, 0, 0]
    assert cluster.address in reported[0]


def test_workers_import_what_is_installed_wherever_a_program_starts(cluster: Joined, tmp_path: Path) -> None:
    program = """
import json
import tempfile
from actors.cluster.joining import join
joined = join(start=False)
import ray

def versions():
    import actors, ray_pubsub, spark_bridge
    return [ray_pubsub.__name__, actors.__name__, spark_bridge.__name__]

print(json.dumps({"imported": ray.get(ray.remote(num_cpus=0)(versions).remote(), timeout=60)}))
joined.leave()
"""
    assert finish(begin(program, folder=tmp_path)) == [{"imported": ["ray_pubsub", "actors", "spark_bridge"]}]


def test_the_token_is_asked_for(cluster: Joined, tmp_path: Path) -> None:
    """Three processes at once: without a token, with a wrong one, and in token mode without one (where Ray itself would abort)."""
    home = str(tmp_path)
    attempts: dict[str, dict[str, str | None]] = {
        "wants a token and got none": {"RAY_AUTH_MODE": None, "RAY_AUTH_TOKEN": None},
        "does not accept the token": {"RAY_AUTH_TOKEN": "0" * 64},
        "there is no token": {"RAY_AUTH_TOKEN": None},
    }
    answers = finish(
        *(begin(JOINING, cluster.address, False, folder=tmp_path, HOME=home, **extra) for extra in attempts.values())
    )
    for reason, told in zip(attempts, answers, strict=True):
        assert reason in told["error"]
        assert "RAY_AUTH_MODE=token" in told["error"]
        assert told["address"] == cluster.address


LOCAL = """
import dataclasses, json
from actors.cluster import ray_internals
from actors.cluster.joining import join
from actors.cluster.probe import probe
from ray_pubsub.errors import ClusterError

joined = join(start=True)
facts = dataclasses.asdict(joined)
import ray
client = ray_internals._part("_raylet").GcsClient(address=joined.address)
told = ray_internals.metadata_of(joined.address, 2.0)
changed = json.dumps({**told, "ray_version": "2.0.0"}).encode()
client.internal_kv_put(ray_internals.METADATA_KEY, changed, True, ray_internals.METADATA_NAMESPACE)
try:
    probe(joined.address, 2.0)
except ClusterError as error:
    facts["mismatch"] = error.reason
facts["resources"] = ray.cluster_resources()
joined.leave()
joined.leave()
try:
    probe(joined.address, 2.0)
except ClusterError as error:
    facts["after"] = error.reason
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def started(cluster: Joined, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """What a process that started a cluster of its own says, and what it wrote on the terminal besides. Another program's cluster runs on
    this machine, and `ray start` has recorded it."""
    folder = tmp_path_factory.mktemp("own")
    with tempfile.TemporaryDirectory(
        prefix="rp", dir="/tmp", ignore_cleanup_errors=True
    ) as short:  # for the paths of sockets
        (Path(short) / "ray").mkdir()
        (Path(short) / "ray" / "ray_current_cluster").write_text(cluster.address)
        [facts], [complaints] = finish_with_errors(begin(LOCAL, folder=folder, RAY_TMPDIR=short, RAY_ADDRESS=None))
    return facts, complaints


def test_a_cluster_is_started_and_ended(started: tuple[dict[str, Any], str]) -> None:
    facts, _ = started
    assert facts["started"] and facts["connected"]
    assert facts["resources"]["CPU"] == 2
    assert "nothing listens there" in facts["after"]


def test_no_server_is_started_on_a_cluster_that_nobody_named(
    cluster: Joined, started: tuple[dict[str, Any], str]
) -> None:
    """Another program's cluster is left alone."""
    assert started[0]["started"] and started[0]["address"] != cluster.address


def test_starting_is_quiet(started: tuple[dict[str, Any], str]) -> None:
    assert started[1] == ""


def test_other_versions_are_named(started: tuple[dict[str, Any], str]) -> None:
    assert started[0]["mismatch"].startswith("the cluster runs Ray 2.0.0 with Python 3.")


def test_what_cannot_be_joined(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nothing else can take the port
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        expected = {
            (nobody, True): "nothing listens there",
            (nobody, False): "nothing listens there",
            ("local", False): "never starts a cluster",
            ("ray://127.0.0.1:10001", True): "Ray Client (ray://) is not supported",
            ("somewhere", True): "an address is host:port",
        }
        [told] = finish(begin(REFUSED, *expected, folder=tmp_path, RAY_ADDRESS=None))
    for reason, answer, (address, _) in zip(expected.values(), told["answers"], expected, strict=True):
        assert reason in answer["error"]
        assert answer["address"] == address
