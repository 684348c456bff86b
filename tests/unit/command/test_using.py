"""Commands that use a server, with one that only answers."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import ray_pubsub
from actors.command import lifecycle, using
from actors.command.entry import app
from actors.command.terminal import Terminal, note_if_typed
from actors.transport.publish_reply import Delivered
from ray_pubsub.errors import UnknownSubscriptionError


class Published(SimpleNamespace):
    def __len__(self) -> int:
        return 2


class Server:
    """Two events per batch: the first matches two subscriptions, the second none."""

    def __init__(self) -> None:
        self.ids: set[str | int] = {"a", 7}
        self.acked: list[Any] = []

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None: ...

    def subscription(self, id: str | int) -> Any:
        if id not in self.ids:
            raise UnknownSubscriptionError(id)
        return SimpleNamespace(id=id)

    def subscribe(self, subscriber: str, expression: str, id: str | int | None, **_: object) -> str | int | None:
        return id

    def unsubscribe(self, id: str | int) -> bool:
        self.ids.remove(id)
        return True

    def unsubscribe_many(self, *, tag: str) -> int:
        return 5 if tag == "sale" else 0

    def publish_json(self, lines: bytes, **_: object) -> Any:
        return Published(
            event_ids=np.array([101, 102]), errors=[], warnings=[], warning_count=0, moment=1_700_000_000_000_000,
            pairs=lambda: iter([(101, "a"), (101, 7)]), subscribers=np.array(["ann", "bob"], object),
            priorities=np.array(["high", "low"], object), counts=lambda: np.array([2, 0]), deliveries=Delivered(),
            data=lambda: [{"title": "é"}, None], tags=lambda: [("t1",), ()],
        )  # fmt: skip

    def poll(self, subscriber: str, limit: int, wait: float, with_data: bool) -> list[Any]:
        carried = {"data": {"title": "é"}, "tags": ("t1",)} if with_data else {"data": None, "tags": ()}
        return [
            SimpleNamespace(subscription_id="a", priority="high", attempt=1, event_id=101, event={"x": 1}, **carried)
        ]

    def ack(self, deliveries: list[Any]) -> None:
        self.acked += deliveries


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(using, "connected", lambda *_: found)
    return found


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.mark.parametrize(("given", "stored"), [("7", 7), ("8", "8"), ("a", "a"), ("b", "b")])
def test_a_subscription_is_replaced_whatever_kind_its_id_is(server: Server, given: str, stored: str | int) -> None:
    told = json.loads(run("subscribe", "ann", "x = 1", "--id", given, "--json").stdout)
    assert told["id"] == stored


def test_who_types_events_is_told_so(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(using, "event_batches", lambda path: [])
    assert "Ctrl-D" not in run("publish").stderr
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    shown = Terminal(as_json=False)
    with shown.notes.capture() as said:
        note_if_typed("-", shown)
        note_if_typed("events.jsonl", shown)
    assert said.get().count("Ctrl-D ends them") == 1


def test_subscriptions_are_removed_by_id(server: Server) -> None:
    """Ids are texts on a command line, and numbers in a server."""
    done = run("unsubscribe", "a", "7")
    assert (done.exit_code, done.stdout, server.ids) == (0, "2 subscriptions removed\n", set())
    unknown = run("unsubscribe", "a", "--json")
    assert (unknown.exit_code, json.loads(unknown.stdout)) == (1, {"removed": 0, "unknown": ["a"]})
    assert "there is no subscription 'a'" in run("unsubscribe", "a").stderr


def test_subscriptions_are_removed_by_tag(server: Server) -> None:
    assert json.loads(run("unsubscribe", "--tag", "sale", "--json").stdout) == {"removed": 5, "unknown": []}
    for arguments in ((), ("a", "--tag", "sale")):
        refused = run("unsubscribe", *arguments)
        assert refused.exit_code == 2 and "and not both" in refused.stderr


@pytest.fixture
def events(tmp_path: Path) -> Path:
    (tmp_path / "e.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
    return tmp_path / "e.jsonl"


def test_every_match_is_shown_with_the_priority_of_its_event(server: Server, events: Path) -> None:
    shown = run("publish", events, "--show")
    assert shown.stdout == "101\ta\tann\thigh\n101\t7\tbob\thigh\n", shown.output
    *matches, last = map(json.loads, run("publish", events, "--show", "--json").stdout.splitlines())
    assert [(each["event_id"], each["priority"], "data" in each) for each in matches] == [(101, "high", False)] * 2
    assert (last["matches"], last["moment"]) == (2, 1_700_000_000_000_000)


def test_only_what_happened_is_counted(server: Server, events: Path) -> None:
    assert run("publish", events).stdout == "2 events, 2 matches, 0 delivered\n"


def test_data_and_tags_are_shown_on_request(server: Server, events: Path) -> None:
    shown = run("publish", events, "--data")
    assert shown.stdout == '101\ta\tann\thigh\t{"title": "é"}\t["t1"]\n101\t7\tbob\thigh\t\t\n', shown.output
    first, second, _ = map(json.loads, run("publish", events, "--show", "--data", "--json").stdout.splitlines())
    assert (first["data"], first["tags"], second["data"], second["tags"]) == ({"title": "é"}, ["t1"], None, [])
    heard = json.loads(run("listen", "ann", "--limit", 1, "--data", "--json").stdout)
    assert (heard["data"], heard["tags"]) == ({"title": "é"}, ["t1"])
    assert "data" not in json.loads(run("listen", "ann", "--limit", 1, "--json").stdout)
    assert run("listen", "ann", "--limit", 1, "--data").stdout == 'high\ta\t{"x": 1}\t{"title": "é"}\t["t1"]\n'
    assert len(server.acked) == 3


def test_a_server_may_ignore_case(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    started = SimpleNamespace(
        name="default", address="127.0.0.1:1", data_dir=None, shards=[0], ends_with_program=False, close=lambda: None
    )

    def start(*_: object, **named: Any) -> Any:
        given.append(named["ignore_case"])
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as Ray replaces it
        return started

    monkeypatch.setattr(ray_pubsub, "start", start)
    handlers: list[Any] = []
    monkeypatch.setattr(
        signal, "signal", lambda _, handler: handlers.append(handler)
    )  # the tests' process keeps its own
    for arguments in ((), ("--ignore-case",)):
        assert run("start", "--address", "127.0.0.1:1", *arguments).exit_code == 0
    assert given == [None, True]
    assert handlers[-1] is lifecycle._interrupt
