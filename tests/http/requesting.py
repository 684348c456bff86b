"""Requests as any client makes them, over a socket, without a library that would hide what is sent."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from actors.http.application import Application

PATIENCE = 120.0
"""Seconds that a test waits for an answer: on a busy machine a server takes its time, and that is no failure."""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class Stream:
    """Server-sent events, read one by one."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._answer = answer
        self.status = answer.status
        self._socket = connection.sock

    def __iter__(self) -> Iterator[dict[str, str]]:
        fields: dict[str, str] = {}
        while True:
            line = self._answer.readline().decode().rstrip("\n")
            if line:
                name, _, value = line.partition(":")
                if name:
                    fields[name] = value.removeprefix(" ")
            elif "data" in fields:
                yield fields
                fields = {}
            else:
                fields = {}

    def comment(self) -> str:
        """Returns the next comment that is not a heartbeat."""
        while True:
            line = self._answer.readline().decode().rstrip("\n")
            if line.startswith(": "):
                return line[2:]

    def take(self, count: int) -> list[dict[str, str]]:
        found = []
        for message in self:
            found.append(message)
            if len(found) == count:
                break
        return found

    def rest(self) -> str:
        """What comes until the server ends the stream."""
        return self._answer.read().decode()

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


class Interface:
    """A running HTTP interface."""

    def __init__(self, app: Application, port: int, token: str) -> None:
        self.app = app
        self.port = port
        self.token = token

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, method: str, path: str, body: Any = None, token: str | None = "", headers: dict[str, str] | None = None
    ) -> Answer:
        """`body`: bytes as they are, anything else as JSON. `token`: None for none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        given = dict(headers or {})
        if token is not None:
            given["Authorization"] = f"Bearer {token or self.token}"
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if content is not None:
            given.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, content, given)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def stream(self, path: str, token: str = "", headers: dict[str, str] | None = None) -> Stream:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", path, headers={"Authorization": f"Bearer {token or self.token}", **(headers or {})})
        return Stream(connection, connection.getresponse())

    def wait_until_ready(self) -> None:
        self.wait_until(lambda: self.ask("GET", "/readyz", token=None).status == 200)

    def wait_until(self, condition: Any, seconds: float = PATIENCE) -> None:
        """Asks until it is so; fails the test otherwise."""
        ends = time.monotonic() + seconds
        while True:
            try:
                if condition():
                    return
            except OSError:  # nobody listens yet, or is too busy to answer
                pass
            assert time.monotonic() < ends, "it did not become so in time"
            time.sleep(0.02)
