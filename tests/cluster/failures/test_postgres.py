"""A server that keeps its data in PostgreSQL: what it survives, and what nobody sees."""

from __future__ import annotations

import logging

import pytest

import ray_pubsub
from actors.cluster.joining import Joined
from ray_pubsub.errors import SettingError, StoreError, UnavailableError
from tests.temporary_postgres import TemporaryPostgres

PASSWORD = "s3cret"


def test_the_database_is_killed_and_comes_back(cluster: Joined, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with TemporaryPostgres() as postgres:
        url = postgres.url().replace("ray@", f"ray:{PASSWORD}@")
        with ray_pubsub.start(1, store=url, name="kept", timeout=4.0, lease=1.0) as server:
            patient(lambda: server.subscribe("desk", "x > 5", id="acknowledged"))
            assert server.publish([{"x": 6}], idempotency_key="first").deliveries.delivered == 1
            postgres.kill()
            with pytest.raises(UnavailableError):
                server.subscribe("desk", "x > 7", id="later")
            with pytest.raises(UnavailableError):
                server.publish([{"x": 9}], idempotency_key="second")
            postgres.start()
            patient(lambda: server.subscribe("desk", "x > 7", id="later"))
            again = patient(lambda: server.publish([{"x": 6}], idempotency_key="first"))
            assert (again.deliveries.delivered, again.deliveries.duplicates) == (0, 1)
            assert patient(lambda: server.publish([{"x": 9}], idempotency_key="second")).deliveries.delivered == 2
            found = patient(lambda: server.poll("desk"))
            assert sorted((message.subscription_id, message.event["x"]) for message in found) == [
                ("acknowledged", 6),
                ("acknowledged", 9),
                ("later", 9),
            ]
            with pytest.raises(SettingError, match="pg_dump"):
                server.backup("/tmp/nowhere")
            assert PASSWORD not in f"{server!r} {server.stats()} {caplog.text}"
            assert server.data_dir == postgres.url()
        with ray_pubsub.start(store=url, name="kept") as server:
            assert {each.id for each in server.subscriptions("desk")} == {"acknowledged", "later"}
            assert len(server.poll("desk")) == 3, "what was not acknowledged is there"


def patient(call):  # type: ignore[no-untyped-def]
    """A process that does not know whether its last commit was done is started again; that may take longer than one timeout."""
    for _ in range(15):
        try:
            return call()
        except UnavailableError as error:
            last = error
    raise last


def test_a_database_that_is_not_there_is_said_at_once(cluster: Joined) -> None:
    with pytest.raises(StoreError, match="check the URL"):
        ray_pubsub.start(1, store="postgresql://ray@127.0.0.1:9/pubsub", name="nowhere")
    with pytest.raises(SettingError, match="one of them"):
        ray_pubsub.start(1, "folder", store="postgresql://ray@127.0.0.1:9/pubsub")
    with pytest.raises(SettingError, match="pg_restore"):
        ray_pubsub.start(1, store="postgresql://ray@127.0.0.1:9/pubsub", restore="folder")
