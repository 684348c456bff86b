"""Which cluster is meant, what answers at an address, how large the object store is: what joining decides without one."""

from __future__ import annotations

import os
import platform
import socket
import sys
import threading

import pytest

from actors.cluster import joining, probe, ray_internals
from actors.cluster.joining import _connect, check_protected, choose
from actors.cluster.local_cluster import MEGABYTE, object_store_memory, start_local_cluster
from ray_pubsub.errors import ClusterError, MissingExtraError


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
        probe._greet(address, 1.0)
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
            probe._greet(f"127.0.0.1:{server.getsockname()[1]}", 30.0)
        thread.join()


def test_what_listens_is_silent() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(ClusterError, match=r"did not answer within 0\.05 s"),
    ):
        probe._greet(f"127.0.0.1:{server.getsockname()[1]}", 0.05)


def test_no_such_host() -> None:
    with pytest.raises(ClusterError, match=r"cannot be reached|did not answer"):
        probe._greet("no-such-host.invalid:6379", 2.0)


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ray-pubsub\[server\]'"):
        ray_internals.import_ray()


def test_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    ray_version = ray_internals.import_ray().__version__
    python = platform.python_version()
    minor = python.rpartition(".")[0]
    same = {"ray_version": ray_version, "python_version": python}
    assert probe.version_mismatch(same) is None
    assert probe.version_mismatch({}) is None
    other_patch = {**same, "python_version": f"{minor}.99"}
    monkeypatch.delenv("RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL", raising=False)
    assert f"Python {minor}.99" in str(probe.version_mismatch(other_patch))
    monkeypatch.setenv("RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL", "minor")
    assert probe.version_mismatch(other_patch) is None
    assert "Ray 1.0" in str(probe.version_mismatch({**same, "ray_version": "1.0"}))


@pytest.mark.parametrize(("free", "size"), [(None, 256), (0, 256), (64, 256), (159, 256), (200, 160), (10_000, 512)])
def test_the_object_store_fits_or_is_kept_in_files(free: int | None, size: int) -> None:
    assert object_store_memory(None if free is None else free * MEGABYTE) == size * MEGABYTE


@pytest.mark.parametrize("mode", [None, "disabled", "token"])
def test_a_server_is_started_on_a_protected_cluster_or_where_the_user_says_that_it_needs_no_protection(
    monkeypatch: pytest.MonkeyPatch, mode: str | None
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setattr(ray_internals, "token_mode", lambda: False)
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        check_protected("10.0.0.5:6379")
    else:
        with pytest.raises(ClusterError, match=r"RAY_AUTH_MODE=token.*RAY_USE_TLS=1.*RAY_AUTH_MODE=disabled") as caught:
            check_protected("10.0.0.5:6379")
        assert caught.value.address == "10.0.0.5:6379"
    check_protected("127.0.0.1:6379")


def test_a_process_that_is_connected_already_starts_a_server_on_a_protected_cluster_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ray:
        @staticmethod
        def is_initialized() -> bool:
            return True

    connected = joining.Joined("10.0.0.5:6379", "node", "x", started=False, connected=False)
    monkeypatch.setattr(ray_internals, "import_ray", Ray)
    monkeypatch.setattr(ray_internals, "token_mode", lambda: False)
    monkeypatch.setattr(joining, "_already_joined", lambda *_: connected)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    assert joining.join(start=False) is connected
    with pytest.raises(ClusterError, match="it has no token"):
        joining.join(start=True)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert joining.join(start=True) is connected


def test_the_switch_for_loopback_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import ray_constants, services

    monkeypatch.delenv(ray_internals.LOOPBACK_VARIABLE, raising=False)
    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", True)
    with ray_internals.loopback_only(True):
        assert services.get_node_ip_address() == "127.0.0.1"
    assert ray_constants.ENABLE_RAY_CLUSTER
    assert ray_internals.LOOPBACK_VARIABLE not in os.environ


def test_a_cluster_that_does_not_start_is_an_error_of_ours() -> None:
    class Overloaded:
        def init(self, **_: object) -> None:
            raise Exception("The current node timed out during startup.")

        def shutdown(self) -> None: ...

    with pytest.raises(
        ClusterError, match="the Ray cluster local: could not be started: The current node timed out during startup"
    ):
        start_local_cluster(Overloaded(), namespace="x", cpus=1, dashboard=False)


def test_a_process_that_joins_a_cluster_outlives_its_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray reads this variable when it connects. That it then leaves the process alone was tried by hand: it takes more than a minute."""
    monkeypatch.delenv(ray_internals.HEAD_VARIABLE, raising=False)
    seen: list[str | None] = []

    class Ray:
        def init(self, **_: object) -> None:
            seen.append(os.environ.get(ray_internals.HEAD_VARIABLE))

    _connect(Ray(), "10.0.0.5:6379", "x")
    assert seen == [ray_internals.HEAD_PATIENCE]
    assert ray_internals.HEAD_VARIABLE not in os.environ
