"""What the interface is compared with: the least that a handler does in the same framework. It imports nothing of this project."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["bare", "bare_handler", "ready"]


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, parses it as JSON, and answers with a small document."""
    if scope["type"] == "lifespan":
        for _ in range(2):
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    attributes = len(json.loads(body)) if body else 0
    answer = json.dumps({"events": 1, "attributes": attributes, "bytes": len(body)}).encode()
    length = str(len(answer)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


SERVING = """
import socket, sys, uvicorn
from benchmarks.servers.bare_handler import bare
quiet = {"access_log": False, "log_level": "error", "server_header": False, "date_header": False, "proxy_headers": False}
config = uvicorn.Config(bare, http="httptools", loop="uvloop", ws="none", **quiet)
uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
"""
"""With the options of the interface (actors/http/serving.py), which bounds its connections besides and writes an answer in one piece.
`uvicorn --fd` takes the descriptor for a Unix socket, does not set TCP_NODELAY, and answers 40 ms later."""


@contextmanager
def bare_handler() -> Iterator[int]:
    """Serves it in a process of its own while the block runs; yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        command = [sys.executable, "-c", SERVING, str(listening.fileno())]
        process = subprocess.Popen(command, pass_fds=[listening.fileno()], env={**os.environ, "PYTHONPATH": "."})
        try:
            while not ready(port):
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()
            process.wait()


def ready(port: int) -> bool:
    """Returns whether something answers at /readyz."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
