"""One Spark session for all tests here, started when the first of them asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from spark_settings import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName("ray-pubsub tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
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
