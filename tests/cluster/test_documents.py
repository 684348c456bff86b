"""The server's examples in the documents run, one after the other, as a reader would paste them."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.joining_programs import begin
from tests.documents import blocks, needs_a_cluster

IN_TURN = """
import json, sys
for place, code in json.loads(sys.argv[1]):
    exec(compile(code, place, "exec"), {"__name__": "__main__"})
import ray_pubsub
try:
    ray_pubsub.connect()
except ray_pubsub.errors.UnknownServerError as error:
    print(error)
"""


def test_they_do_what_they_say(tmp_path: Path) -> None:
    """In a process of their own: they start a cluster."""
    listed = [(place, code) for place, code in blocks() if needs_a_cluster(code)]
    assert len(listed) >= 3
    program = begin(IN_TURN, *listed, folder=tmp_path, RAY_ADDRESS=None, RAY_PUBSUB_RUNTIME_DIR=str(tmp_path / "notes"))
    said, complaints = program.communicate(timeout=300)
    assert program.returncode == 0, complaints
    for part in (
        "PublishResult(2 matches of 2 events)",
        "['s1'] ['desk-7', 'desk-7'] ['low', 'critical']",
        "critical s1 {'model': 'iphone5s', 'price': 90}\nlow s1 {'model': 'iphone5s', 'price': 550}",
        "['price < 9']",
        "PublishResult(0 matches of 1 event, 1 warning) [EventError(",
        "PublishResult(0 matches of 1 event, 1 bad event) [EventError(",
        "✗ price <= 580",
        "server 'default'",
        "no server 'default' runs",  # the last one stops it
    ):
        assert part in said, part
