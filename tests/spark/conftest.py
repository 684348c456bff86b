"""One Spark session and one server for all tests here, each started when the first of them asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.spark_settings import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from actors.client.server import Server
    from actors.cluster.joining import Joined


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    from spark_bridge.local_java import use_java

    use_java()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Two cores; and four attempts of a task, where a local Spark otherwise makes one.
    builder = SparkSession.builder.master("local[2, 4]").appName("ray-pubsub tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.python.daemon.module", "tests.spark.python_daemon")  # modules are imported once
    warehouse = tmp_path_factory.mktemp("spark")
    session = builder.config("spark.sql.warehouse.dir", str(warehouse)).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def session_zone(spark: SparkSession) -> Iterator[str]:
    """A session whose zone is not UTC and has a summer time."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield "America/New_York"
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.fixture(scope="package")
def server(cluster: Joined, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """For all tests: each has ids, subscribers and attributes of its own."""
    import ray_pubsub

    with ray_pubsub.start(2, tmp_path_factory.mktemp("server"), "spark", mailbox={"capacity": 2000}) as server:
        yield server


@pytest.fixture
def session_setting(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets something of the session for one test."""
    changed = []

    def change(name: str, value: str) -> None:
        changed.append(name)
        spark.conf.set(name, value)

    yield change
    for name in changed:
        spark.conf.unset(name)
