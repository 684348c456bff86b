"""A cluster of a server's own is reached from this machine only: checked on the sockets that its processes listen on."""

from __future__ import annotations

from pathlib import Path

from actors.cluster.joining import ADDRESS_VARIABLE
from actors.cluster.ray_internals import LOOPBACK_VARIABLE
from tests.cluster.joining_programs import begin, finish

STARTING = """
import json, os, socket, struct, subprocess, sys
from pathlib import Path
import ray_pubsub

def listening():
    "Socket → address, of all sockets of this machine that listen."
    found = {}
    for table, words in (("tcp", 1), ("tcp6", 4)):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                content = bytes.fromhex(fields[1].partition(":")[0])
                parts = [content[place : place + 4][::-1] for place in range(0, 4 * words, 4)]
                family = socket.AF_INET if words == 1 else socket.AF_INET6
                found[fields[9]] = socket.inet_ntop(family, b"".join(parts))
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

with ray_pubsub.start(1, name="alone", address="local") as server:
    server.subscribe("desk", "x = 1", id="s")
    every, addresses = listening(), []
    for pid in processes(os.getpid()):
        addresses += [every[inode] for inode in sockets(pid) if inode in every]
    other = 'import sys, ray_pubsub; print(ray_pubsub.connect("alone", address=sys.argv[1]).subscription("s").expression)'
    joined = subprocess.run([sys.executable, "-c", other, server.address], capture_output=True, text=True, check=True)
    print(json.dumps({"addresses": sorted(addresses), "joined": joined.stdout.strip()}))
"""


def test_only_this_machine_can_reach_a_cluster_that_was_started_for_a_server(tmp_path: Path) -> None:
    [found] = finish(begin(STARTING, folder=tmp_path, **{ADDRESS_VARIABLE: None, LOOPBACK_VARIABLE: None}))
    assert len(found["addresses"]) >= 6  # the head, its monitor and metrics, the node, its agents, the actors
    assert set(found["addresses"]) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert found["joined"] == "x = 1"
