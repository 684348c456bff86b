"""Which cluster is meant, what answers at an address, how large the object store is: what joining decides without one."""

from __future__ import annotations

import platform
import socket
import sys
import threading

import pytest

from actors import cluster_probe, ray_internals
from actors.cluster import choose
from actors.local_cluster import MEGABYTE, object_store_memory
from ray_pubsub.errors import ClusterError


def test_the_recorded_cluster_wins() -> None:
    assert choose("a:1", frozenset({"a:1", "b:2"})) == "a:1"
    assert choose("a:1", frozenset()) == "a:1"  # its processes may be invisible, in another container
    assert choose("a:1", frozenset({"b:2"})) == "b:2"
    assert choose(None, frozenset()) is None


def test_several_clusters_are_named() -> None:
    with pytest.raises(ClusterError, match="several Ray clusters run on this machine: a:1, b:2;"):
        choose(None, frozenset({"b:2", "a:1"}))


@pytest.mark.parametrize("address", ["", "somewhere", "host:", "host:port", "host:0", "host:65536", ":6379"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ClusterError, match="host:port") as caught:
        cluster_probe._greet(address, 1.0)
    assert caught.value.address == address


def test_what_listens_is_not_ray() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ClusterError, match="it is no Ray head"):
            cluster_probe._greet(f"127.0.0.1:{server.getsockname()[1]}", 30.0)
        thread.join()


def test_what_listens_is_silent() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(ClusterError, match=r"did not answer within 0\.05 s"),
    ):
        cluster_probe._greet(f"127.0.0.1:{server.getsockname()[1]}", 0.05)


def test_no_such_host() -> None:
    with pytest.raises(ClusterError, match=r"cannot be reached|did not answer"):
        cluster_probe._greet("no-such-host.invalid:6379", 2.0)


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match="pip install"):
        ray_internals.import_ray()


def test_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    ray_version = ray_internals.import_ray().__version__
    python = platform.python_version()
    minor = python.rpartition(".")[0]
    same = {"ray_version": ray_version, "python_version": python}
    assert cluster_probe.version_mismatch(same) is None
    assert cluster_probe.version_mismatch({}) is None
    other_patch = {**same, "python_version": f"{minor}.99"}
    monkeypatch.delenv("RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL", raising=False)
    assert f"Python {minor}.99" in str(cluster_probe.version_mismatch(other_patch))
    monkeypatch.setenv("RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL", "minor")
    assert cluster_probe.version_mismatch(other_patch) is None
    assert "Ray 1.0" in str(cluster_probe.version_mismatch({**same, "ray_version": "1.0"}))


@pytest.mark.parametrize(("free", "size"), [(None, 256), (0, 256), (64, 256), (159, 256), (200, 160), (10_000, 512)])
def test_the_object_store_fits_or_is_kept_in_files(free: int | None, size: int) -> None:
    assert object_store_memory(None if free is None else free * MEGABYTE) == size * MEGABYTE
