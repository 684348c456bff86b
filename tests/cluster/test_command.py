"""The command `ray-pubsub` against a running server: most of it by typer's runner, the documents' samples by the console script itself."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from actors.client.server import Server
from actors.command.entry import app
from tests.documents import ROOT, fenced

SCRIPT = Path(sys.executable).with_name("ray-pubsub")


def run(server: Server, *arguments: Any) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments), "--server", server.name])


def facts(server: Server, *arguments: Any) -> Any:
    result = run(server, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_from_a_subscription_to_its_delivery(server: Server, tmp_path: Path) -> None:
    assert facts(server, "subscribe", "cli-desk", "cli.price < 10", "--id", "cli-1") == {
        "id": "cli-1",
        "subscriber": "cli-desk",
    }
    events = tmp_path / "events.jsonl"
    events.write_text('{"cli": {"price": 5}, "id": "cli-a"}\n{"cli": {"price": 50}, "id": "cli-b"}\n')
    told = facts(server, "publish", events, "--event-id", "id")
    assert (told["events"], told["matches"], told["delivered"]) == (2, 1, 1)
    assert facts(server, "publish", events, "--event-id", "id")["duplicates"] == 1
    shown = run(server, "publish", events, "--event-id", "id", "--match-only", "--show")
    assert shown.stdout == "cli-a\tcli-1\tcli-desk\tlow\n"
    kept = facts(server, "listen", "cli-desk", "--keep", "--limit", 1)
    assert (kept["event"], kept["attempt"]) == ({"cli": {"price": 5}, "id": "cli-a"}, 1)
    assert facts(server, "listen", "cli-desk", "--limit", 1)["event_id"] == "cli-a"
    nothing = run(server, "listen", "cli-desk", "--idle", 0)
    assert (nothing.exit_code, nothing.stdout) == (0, "")


def test_bad_events_are_reported(server: Server, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"cli.x": 1}\nnot json\n')
    result = run(server, "publish", events)
    assert result.exit_code == 1 and "event 1: " in result.stderr
    events.write_text('{"cli.x": 1, "y": 99999999999999999999}\n')
    result = run(server, "publish", events)
    assert result.exit_code == 0 and "event 0: left out y: " in result.stderr
    assert run(server, "publish", events, "--strict").exit_code == 1


def test_json_has_what_was_bad_and_the_moment(server: Server, tmp_path: Path) -> None:
    server.subscribe("cli-bad", "cli.bad = 1 or y = 17", id="cli-bad-1")
    events = tmp_path / "events.jsonl"
    events.write_text('{"cli": {"bad": 1}, "y": 99999999999999999999}\nnot json\n')
    result = run(server, "publish", events, "--match-only", "--show", "--json")
    assert result.exit_code == 1 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert len(lines) == 2, (result.stdout, result.exception)
    match, told = map(json.loads, lines)
    assert match["subscription_id"] == "cli-bad-1"
    (error,), (warning,) = told["errors"], told["warnings"]
    assert error["position"] == 1 and error["reason"]
    assert (warning["position"], warning["attribute"], told["warning_count"]) == (0, "y", 1)
    assert abs(told["moment"] / 1e6 - time.time()) < 600


def test_loading_and_exporting(server: Server, tmp_path: Path) -> None:
    table = tmp_path / "wishes.csv"
    table.write_text(
        "id,subscriber,expression\nload-1,loader,load.x < 5\nload-2,loader,load.x <\nload-3,loader,load.y = 'a'\n"
    )
    result = run(server, "load", table, "--rejected", tmp_path / "rejected.jsonl", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (told["added"], told["rejected"]) == (2, 1)
    (row,) = map(json.loads, (tmp_path / "rejected.jsonl").read_text().splitlines())
    assert (row["position"], row["id"]) == (1, "load-2") and "unexpected end" in row["reason"]
    assert "unexpected end" in run(server, "load", table).stderr
    for kind in ("jsonl", "csv", "parquet"):
        exported = tmp_path / f"exported.{kind}"
        assert facts(server, "export", exported, "--subscriber", "loader")["exported"] == 2
        assert facts(server, "load", exported)["added"] == 2
    assert [(each.id, each.expression) for each in server.subscriptions("loader")] == [
        ("load-1", "load.x < 5"),
        ("load-3", "load.y = 'a'"),
    ]
    carried = ["--data", '{"title": "A, \\"b\\""}', "--tag", "load-b", "--tag", "load-a"]
    assert facts(server, "subscribe", "loader", "load.z = 1", "--id", "load-4", *carried)["id"] == "load-4"
    server.subscribe("loader", "load.z = 2", id="load-5", data="5", tags=["load-a"])
    for kind in ("jsonl", "csv", "parquet"):
        exported = tmp_path / f"tagged.{kind}"
        assert facts(server, "export", exported, "--tag", "load-a")["exported"] == 2
        server.unsubscribe_many(tag="load-a")
        assert facts(server, "load", exported)["added"] == 2
        found = {each.id: (each.data, each.tags) for each in server.subscriptions("loader", tag="load-a")}
        assert found == {"load-4": ({"title": 'A, "b"'}, ("load-a", "load-b")), "load-5": ("5", ("load-a",))}
    bad = run(server, "subscribe", "loader", "load.z = 1", "--data", "{")
    assert bad.exit_code == 2 and "must be JSON" in bad.stderr
    assert run(server, "load", table, "--tag", "all-of-them").exit_code == 1
    assert [each.id for each in server.subscriptions(tag="all-of-them")] == ["load-1", "load-3"]
    assert facts(server, "export", tmp_path / "all.jsonl")["exported"] == server.stats().registry["subscriptions"]


def test_explaining(server: Server) -> None:
    server.subscribe("explained", "explained.x > 5", id=4711)
    result = run(server, "explain", '{"explained": {"x": 3}}', "4711")
    assert result.stdout == "✗ explained.x > 5   (is 3)\n"
    assert "shards" in facts(server, "explain", '{"explained": {"x": 3}}')
    unknown = run(server, "explain", '{"x": 1}', "nobody")
    assert unknown.exit_code == 1 and "there is no subscription 'nobody'" in unknown.stderr


def test_looking_in(server: Server) -> None:
    server.subscribe("looked", "looked.x >= 0", id="looked-1")
    server.publish([{"looked": {"x": number}} for number in range(20)])
    assert facts(server, "status")["name"] == server.name
    picture = run(server, "top", "--once").stdout
    assert max(len(line) for line in picture.splitlines()) <= 80
    for word in ("events/s", "p50", "p99", "shard 0", "coordinator 0", "hot pivots", "on time", "critical"):
        assert word in picture, word
    assert facts(server, "top", "--once")["coordinators"][0]["hot_pivots"]
    assert "metrics for Prometheus" in run(server, "status").stdout


def test_no_such_server(server: Server) -> None:
    result = CliRunner().invoke(app, ["status", "--server", "nowhere"])
    assert result.exit_code == 3
    assert "no server 'nowhere' runs" in result.stderr and "'shared'" in result.stderr


def test_a_server_of_its_own_as_the_documents_use_it(tmp_path: Path) -> None:
    """By the console script, without an address: every command finds the server by its name. What docs/tutorial.md and docs/http.md show is
    run as it stands there, but for the port and the folder of the token."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment |= {"RAY_PUBSUB_RUNTIME_DIR": str(tmp_path / "notes"), "XDG_STATE_HOME": str(tmp_path / "state")}
    environment["PATH"] = f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"

    def shell(text: str, *more: str) -> subprocess.CompletedProcess[str]:
        text = text.replace("8480", str(port)).replace("~/.local/state", str(tmp_path / "state"))
        command = ["bash", "-e", "-c", text] if not more else [*more, text]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    files, in_process, *_, terminal = fenced("docs/tutorial.md")[1:]
    matched = shell(files + in_process)
    assert matched.stdout.splitlines() == ["0\tcheap", "1\tblue", "✗ price < 10   (is 20)"], matched.stderr
    start, serve = fenced("docs/http.md")
    assert serve == "ray-pubsub serve --port 8480\n"
    started = shell(f"{start.rstrip()} --shards 1 --json")
    assert started.returncode == 0, started.stderr
    try:
        facts = json.loads(started.stdout)
        assert (facts["data_dir"], facts["http"]) == (str(tmp_path / "data"), f"http://127.0.0.1:{port}/")
        token = tmp_path / "state" / "ray-pubsub" / "default" / "admin-token"
        assert facts["token_file"] == str(token)
        with urllib.request.urlopen(f"{facts['http']}readyz", timeout=60) as answer:  # `--background` has waited for it
            assert json.load(answer) == {"status": "ready", "server": "default"}
        other = shell("ray-pubsub start other --http 8480 --background")
        assert other.returncode == 2 and f"nothing can listen at {port}: Address already in use" in other.stderr
        assert terminal.startswith("ray-pubsub start --background") and terminal.endswith("ray-pubsub stop\n")
        used = shell("\n".join(terminal.splitlines()[1:-1]))
        assert "1 event, 1 match, 1 delivered\n" in used.stdout and '{"price": 5}\n' in used.stdout, used.stderr
        assert "deliveries: 0 waiting" in used.stdout

        (requests,) = fenced("docs/http.md", "sh")
        asked = shell(f"{requests.rstrip()} 2> /dev/null | grep --max-count 1 ^data:")  # a stream has no end
        assert '"subscriber":"desk-7"' in asked.stdout and 'data: {"' in asked.stdout, asked
        environment["TOKEN"] = token.read_text().strip()
        (python,), (javascript,) = fenced("docs/http.md", "python"), fenced("docs/http.md", "js")
        package = tmp_path / "node_modules" / "ray-pubsub"  # as `npm install FOLDER` makes it
        package.parent.mkdir()
        package.symlink_to(ROOT / "clients" / "typescript")
        for done, event in (
            (shell(python, sys.executable, "-c"), "{'price': 5}"),
            (shell(javascript, "node", "--input-type=module", "-e"), "{ price: 5 }"),
        ):
            title, *events, removed = done.stdout.splitlines()
            assert "Cheap" in title and event in events and int(removed) >= 1, (done.stdout, done.stderr)
    finally:
        stopped = shell("ray-pubsub stop --data-dir data")
    assert (stopped.returncode, stopped.stdout) == (0, "server 'default' is stopped\n"), stopped.stderr
    assert list((tmp_path / "notes").iterdir()) == []
    assert "***" not in Path(facts["log"]).read_text()  # Ray's page about a process that was ended
    assert shell("ray-pubsub status").returncode == 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    """Asked as the line does that completion installs in a shell's start file, so that the shell that runs the tests does not matter."""
    asked = {**os.environ, "_RAY_PUBSUB_COMPLETE": f"source_{shell}"}
    shown = subprocess.run([SCRIPT], capture_output=True, text=True, check=False, env=asked)
    assert "_RAY_PUBSUB_COMPLETE" in shown.stdout, shown.stderr
