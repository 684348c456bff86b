"""What the doctor finds, and what it prescribes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.command import doctor
from actors.command.entry import app


def test_everything_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    found = {each["what"]: each for each in json.loads(result.stdout)}
    assert {
        "Python",
        "ray-pubsub",
        "kernels",
        "memory",
        "Ray",
        "/dev/shm",
        "ports",
        "token",
        "Spark",
        "Java",
    } <= found.keys()
    assert found["Python"]["verdict"] == "ok"
    shown = CliRunner().invoke(app, ["doctor"]).stdout
    assert max(len(line) for line in shown.splitlines()) <= 80


@pytest.mark.parametrize(
    ("environment", "has_file", "verdict", "words"),
    [
        ({}, False, "optional", "none yet"),
        ({}, True, "ok", "export RAY_AUTH_MODE=token"),
        ({"RAY_AUTH_MODE": "token"}, False, "problem", "ray get-auth-token"),
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "x"}, False, "ok", "in RAY_AUTH_TOKEN"),
        ({"RAY_AUTH_MODE": "disabled"}, True, "optional", "can run code on it"),
    ],
)
def test_the_token_is_explained(
    tmp_path: Path, environment: dict[str, str], has_file: bool, verdict: str, words: str
) -> None:
    file = tmp_path / "auth_token"
    if has_file:
        file.write_text("secret-token")
    found = doctor._token(environment, file)
    assert found.verdict == verdict
    assert words in f"{found.found} {found.remedy}" and "secret-token" not in f"{found}"


WITHOUT_RAY = """
import sys
sys.modules["ray"] = None
import importlib.metadata as metadata
real = metadata.version
def version(name):
    if name == "ray":
        raise metadata.PackageNotFoundError(name)
    return real(name)
metadata.version = version
from actors.command.entry import app
app(sys.argv[1:])
"""


def without_ray(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT_RAY, *arguments], capture_output=True, text=True, check=False)


def test_the_command_works_without_ray(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("id,expression\na,x = 1\n")
    (tmp_path / "e.jsonl").write_text('{"x": 1}\n')
    matched = without_ray("match", str(tmp_path / "s.csv"), str(tmp_path / "e.jsonl"))
    assert (matched.returncode, matched.stdout) == (0, "0\ta\n"), matched.stderr
    looked = without_ray("doctor", "--json")
    (ray,) = (each for each in json.loads(looked.stdout) if each["what"] == "Ray")
    assert ray["verdict"] == "optional" and "ray-pubsub[server]" in ray["remedy"]
    started = without_ray("start")
    assert started.returncode == 4 and "pip install 'ray-pubsub[server]'" in started.stderr
