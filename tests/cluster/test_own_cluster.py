"""A cluster of a server's own, which ends with it: reached from this machine only, and never started again for a server that has ended."""

from __future__ import annotations

from typing import Any

import pytest

from actors.cluster.joining import ADDRESS_VARIABLE
from actors.cluster.ray_internals import LOOPBACK_VARIABLE
from tests.cluster.joining_programs import begin, finish

PROGRAM = """
import http.client, json, os, socket, stat, struct, subprocess, sys
from pathlib import Path
import grpc, ray, ray_pubsub
from ray_pubsub.errors import ServerClosedError

def listening():
    "Socket → address and port, of all sockets of this machine that listen."
    found = {}
    for table, words in (("tcp", 1), ("tcp6", 4)):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                place, _, port = fields[1].partition(":")
                content = bytes.fromhex(place)
                parts = [content[place : place + 4][::-1] for place in range(0, 4 * words, 4)]
                family = socket.AF_INET if words == 1 else socket.AF_INET6
                found[fields[9]] = socket.inet_ntop(family, b"".join(parts)), int(port, 16)
    return found

def processes(parent):
    "A process, and all that it has started."
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            child, rest = stat.read_text().rsplit(")", 1)
        except OSError:
            continue
        children.setdefault(int(rest.split()[1]), []).append(int(child.split()[0]))
    found = [parent]
    for each in found:
        found += children.get(each, [])
    return found

def sockets(pid):
    for entry in Path("/proc", str(pid), "fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[8:-1]

METHODS = (
    "NodeInfoGcsService/GetAllNodeInfo", "InternalKVGcsService/InternalKVGet", "ActorInfoGcsService/ListNamedActors",
    "NodeManagerService/GetNodeStats", "CoreWorkerService/PushTask", "ObjectManagerService/Pull", "ReporterService/GetTraceback",
)

def without_token(port):
    "What somebody gets who has no token: the methods that answer, those that refuse, and what a browser is shown."
    answered, refused = [], []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for method in METHODS:
            try:
                channel.unary_unary(f"/ray.rpc.{method}")(b"", timeout=10)
                answered.append(method)
            except grpc.RpcError as error:
                refused += [method] if error.code() is grpc.StatusCode.UNAUTHENTICATED else []
    browser = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        browser.request("GET", "/metrics")
        page = browser.getresponse()
        return answered, refused, page.status, page.read().decode()
    except (http.client.HTTPException, OSError):
        return answered, refused, None, ""
    finally:
        browser.close()

closed = []

def attempt(use):
    try:
        use()
    except ServerClosedError as error:
        closed.append([error.name, error.how])

with ray_pubsub.start(1, name="own", address="local") as server:
    beside = ray_pubsub.connect("own")
    server.subscribe("name of a subscriber", "x = 1", id="s")
    every, addresses = listening(), []
    for pid in processes(os.getpid()):
        addresses += [every[inode] for inode in sockets(pid) if inode in every]
    strangers = [without_token(port) for port in sorted({port for _, port in addresses})]
    addresses = [address for address, _ in addresses]
    metrics = len(server.stats(hot=0).metrics)
    other = 'import sys, ray_pubsub; print(ray_pubsub.connect("own", address=sys.argv[1]).subscription("s").expression)'
    joined = subprocess.run([sys.executable, "-c", other, server.address], capture_output=True, text=True, check=True)
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    private = stat.S_IMODE(session.parents[1].stat().st_mode)
    socket_paths = [str(path) for path in session.glob("sockets/*")]
    token = Path.home() / ".ray" / "auth_token"
    token_modes = [stat.S_IMODE(path.stat().st_mode) for path in (token.parent, token)]
    result = server.publish([{"x": 1}] * 5000)  # names of many matches are asked for when they are looked at
attempt(lambda: server.publish({"x": 1}))
attempt(lambda: server.publish([{"x": 1}] * 100))
attempt(lambda: beside.publish({"x": 1}))
attempt(lambda: result.subscribers)
beside.close()
removed = not session.parents[1].exists()
other = ray_pubsub.start(1, name="other", address="local")
ray.shutdown()
attempt(lambda: other.publish({"x": 1}))
attempt(lambda: other.subscribe("a", "x = 1"))
kept = {"private": private, "sockets": socket_paths, "token": token_modes, "removed": removed}
seen = {"strangers": strangers, "metrics": metrics, "addresses": sorted(addresses), "joined": joined.stdout.strip(), "closed": closed}
print(json.dumps({**kept, **seen, "initialized": ray.is_initialized()}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one program saw: a cluster takes long to start, and this starts two."""
    home = tmp_path_factory.mktemp("home")
    environment = {
        ADDRESS_VARIABLE: None,
        LOOPBACK_VARIABLE: None,
        "RAY_AUTH_TOKEN": None,
        "RAY_AUTH_MODE": None,
        "HOME": str(home),
    }
    return finish(begin(PROGRAM, folder=tmp_path_factory.mktemp("own"), **environment))[0]


def test_only_this_machine_can_reach_it(found: dict[str, Any]) -> None:
    """By the sockets that its processes listen on."""
    assert len(found["addresses"]) >= 6  # the head and its metrics, the node, its agents, the actors
    assert set(found["addresses"]) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert found["joined"] == "x = 1"


def test_who_has_no_token_gets_nothing_but_numbers(found: dict[str, Any]) -> None:
    """At every port. Ray gives its metrics to everybody on the machine: they have names of servers, not of subscribers."""
    assert [answered for answered, *_ in found["strangers"] if answered] == []
    refused = {method.partition("/")[0] for _, methods, *_ in found["strangers"] for method in methods}
    assert {"NodeInfoGcsService", "NodeManagerService", "CoreWorkerService", "ObjectManagerService"} <= refused
    shown = [page for *_, status, page in found["strangers"] if status == 200]
    assert len(shown) == found["metrics"]
    assert "name of a subscriber" not in "".join(shown)


def test_only_this_user_can_reach_its_sockets_and_read_its_token(found: dict[str, Any]) -> None:
    assert found["private"] == 0o700
    assert {path.rpartition("/")[2] for path in found["sockets"]} >= {"raylet", "plasma_store"}
    assert found["token"] == [0o700, 0o600]
    assert found["removed"], "its sockets and logs end with it"


def test_none_is_started_for_a_server_that_has_ended(found: dict[str, Any]) -> None:
    assert found["closed"] == [
        *(["own", how] for how in ("stopped", "stopped", "closed", "stopped")),
        *(["other", "closed"] for _ in range(2)),
    ]
    assert not found["initialized"]
