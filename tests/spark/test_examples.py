"""The examples with Spark run, small, with the session and the cluster of these tests in place of their own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

import ray_pubsub

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from actors.client.server import Server

Main = Callable[..., list[str]]


@pytest.fixture
def main(
    spark: SparkSession, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Main]:
    """Runs the `main` of an example, and returns the lines that it prints."""

    def run(name: str, *arguments: str) -> list[str]:
        module = importlib.import_module(f"examples.{name}")
        monkeypatch.setattr(module, "local_session", lambda *_, **__: nullcontext(spark))
        monkeypatch.setattr(ray_pubsub, "start", lambda *_, **__: nullcontext(server))
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        module.main()
        return capsys.readouterr().out.splitlines()

    yield run
    for rule in ("bargain", "burning"):
        server.unprioritize(rule)
    own = [each.id for each in server.subscriptions() if str(each.id).startswith(("wish-", "too hot"))]
    server.unsubscribe_many(own)


def test_batch(main: Main) -> None:
    said = main("spark_batch", "--events", "3000", "--subscriptions", "1000")
    assert said[0] == "999 subscriptions added, 1 rejected"
    assert any(line.endswith(" matches of 3,000 events") and line[0] != "0" for line in said)
    assert any("|high " in line for line in said) and any("odd" in line for line in said)
    assert [line for line in said if len(line) > 80] == []


def test_stream(main: Main) -> None:
    said = main("spark_stream", "--readings", "300")
    assert [line for line in said if line.startswith("after round")] == [
        "after round 1: 9 alarms of 9 readings",
        "after round 2: 18 alarms of 18 readings",
    ]
    assert any(line.startswith("|critical|") for line in said)
    assert [line for line in said if len(line) > 80] == []
