"""One server and one HTTP interface for the tests of this folder, on the cluster of tests/conftest.py."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import ray_pubsub
from actors.client.server import Server
from actors.cluster.joining import Joined
from actors.http.application import Application
from actors.http.serving import listening_socket, uvicorn_server
from actors.http.settings import HttpSettings
from tests.http.requesting import Interface

TOKENS = {
    "boss": {"token": "token-of-the-admin", "scopes": ["admin"]},
    "publisher": {"token": "token-of-publisher", "scopes": ["publish"]},
    "ann": {"token": "token-of-ann-only", "scopes": ["subscribe:ann"]},
    "team": {"token": "token-of-the-team", "scopes": ["subscribe:team-*"]},
    "viewer": {"token": "token-of-a-viewer", "scopes": ["read"]},
}


@pytest.fixture(scope="package")
def server(cluster: Joined) -> Iterator[Server]:
    shards = 2 if "SCREENSHOTS" in os.environ else 1  # pictures show a server as it is by default
    with ray_pubsub.start(shards, name="http", mailbox={"delivery_limit": 3}) as server:
        yield server


def running(settings: HttpSettings) -> Iterator[Interface]:
    """An interface in a thread of this process, which is a process of the cluster already."""
    app = Application(settings)
    listening = listening_socket(settings)
    runner = uvicorn_server(app, settings, app.end_waits)
    runner.install_signal_handlers = lambda: None
    thread = threading.Thread(target=lambda: asyncio.run(runner.serve(sockets=[listening])), daemon=True)
    thread.start()
    interface = Interface(app, listening.getsockname()[1], "token-of-the-admin")
    interface.wait_until_ready()
    try:
        yield interface
    finally:
        runner.should_exit = True
        thread.join(30)
        listening.close()


@pytest.fixture(scope="package")
def interface(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interface]:
    folder: Path = tmp_path_factory.mktemp("interface")
    yield from running(
        HttpSettings(
            server="http", port=0, state_dir=str(folder), tokens=TOKENS, max_body=100_000, max_line=20_000,
            allow_networks=("127.0.0.1/32",), webhook_retry=0.05, webhook_timeout=2.0, settle=0.2,
        )
    )  # fmt: skip
