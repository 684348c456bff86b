"""What the wheel holds; `make package-check` installs it into a fresh environment."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from actors.command.entry import app
from actors.command.http_beside import host_and_port
from tests.house.source_tree import ROOT
from tests.package.build import PARTS, build


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    (path,) = build(tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("work"), "wheel")
    return zipfile.ZipFile(path)


def test_every_module_is_in_it_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    modules = {str(path.relative_to(ROOT)) for part in PARTS for path in (ROOT / part).rglob("*.py")}
    assert modules <= names
    console = {
        str(path.relative_to(ROOT)) for path in (ROOT / "actors" / "http" / "console").iterdir() if path.is_file()
    }
    assert names - modules == {
        *{"pyspark_ray_pubsub.py", "ray_pubsub_http.py"},
        *console,
        *{f"{part}/py.typed" for part in PARTS},
        "ray_pubsub/language/grammar.lark",
        "spark_bridge/bundled_java/bin/java",
    }


def test_the_core_is_small_and_extras_have_the_rest(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
    required = metadata.get_all("Requires-Dist") or []
    core = {re.split(r"[<>=\[;]", each)[0] for each in required if "extra ==" not in each}
    assert core == {"google-re2", "lark", "msgpack", "numba", "numpy", "pyarrow", "rich", "typer", "xxhash"}
    assert {"server", "spark", "metrics"} <= set(metadata.get_all("Provides-Extra") or [])
    assert any(each.startswith("ray>=") and 'extra == "server"' in each for each in required)


def test_the_command_is_installed(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "ray-pubsub = actors.command.entry:main" in wheel.read(name).decode()


def test_the_image_is_linted_and_runs_as_nobody_special() -> None:
    lint = [str(Path(sys.executable).with_name("hadolint")), "--failure-threshold", "style", str(ROOT / "Dockerfile")]
    done = subprocess.run(lint, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    words = [line.split() for line in lines if line.strip()]
    users = [line[1] for line in words if line[0] == "USER"]
    assert users and users[-1] not in ("root", "0")
    copied = [name for line in words if line[0] == "COPY" and not line[1].startswith("--") for name in line[1:-1]]
    assert copied and [name for name in copied if not (ROOT / name).exists()] == []


def test_the_image_is_reached_through_http() -> None:
    """Nothing else of a server listens beyond loopback."""
    lines = dict(line.split(" ", 1) for line in (ROOT / "Dockerfile").read_text().splitlines() if " " in line)
    command = json.loads(lines["CMD"])
    host, port = host_and_port(command[command.index("--http") + 1])
    assert (host, str(port)) == ("0.0.0.0", lines["EXPOSE"])
    done = CliRunner().invoke(app, [*command, "--address", "127.0.0.1:1"])
    assert done.exit_code == 2 and "beside the cluster" in done.stderr  # every option is one of the command
    assert re.search(r"XDG_STATE_HOME=/data/\w+", lines["ENV"]) and lines["VOLUME"] == "/data"


def test_workflows_call_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert {path.stem for path in files} >= {"test", "package", "docs"}
    for path in files:
        jobs = yaml.safe_load(path.read_text())["jobs"]
        for job in jobs.values():
            assert job["timeout-minutes"] <= 60
            called = [step["run"].split() for step in job["steps"] if "run" in step]
            assert called and all(command[0] == "make" and command[1] in targets for command in called), path.name
