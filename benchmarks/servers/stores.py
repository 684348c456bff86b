"""SQLite and PostgreSQL as stores, beside each other: subscriptions in bulk and one at a time, deliveries; each read back and compared."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from actors.mailboxes.delivery_batch import DeliveryBatch
from actors.mailboxes.event_content import pack_event
from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.store.store import MailboxStore
from actors.registry.changes import Subscribe
from actors.registry.columns import TextColumns
from actors.registry.store.store import RegistryStore
from ray_pubsub.sharding.pivots import PivotColumn, Route
from tests.stores import open_mailbox_store, open_registry_store
from tests.temporary_postgres import TemporaryPostgres

EVENTS = 1_000


def in_bulk(open_store: Callable[[], RegistryStore], count: int) -> float:
    """Texts per second, in transactions of 50,000 or all at once."""
    texts = [f"price > {number} and symbol = 's{number % 97}'" for number in range(count)]
    columns = TextColumns(list(range(count)), [f"desk-{number % 50}" for number in range(count)], texts)
    pivots = PivotColumn.of([Route(("symbol",))] * count)
    with open_store() as store:
        began = time.perf_counter()
        store.commit_texts(columns, np.zeros(count, np.int32), pivots)
        seconds = time.perf_counter() - began
    with open_store() as store:
        found = store.snapshot_for_shard(0)
        assert found.ids.tolist() == columns.ids and found.expressions == texts, "read back as they were written"
    return count / seconds


def one_by_one(open_store: Callable[[], RegistryStore], count: int) -> float:
    """Milliseconds of a subscription with an idempotency key, which is on disk then: the median."""
    seconds = []
    with open_store() as store:
        for number in range(count):
            began = time.perf_counter()
            store.commit([Subscribe(f"one-{number}", "desk", f"x = {number}", key=f"key-{number}")])
            seconds.append(time.perf_counter() - began)
        assert store.get(f"one-{count - 1}").expression == f"x = {count - 1}"
    return 1e3 * statistics.median(seconds)


def deliveries(open_store: Callable[[], MailboxStore], batches: int) -> float:
    """Deliveries per second: delivered in batches of a thousand events, each for ten subscribers, polled and acknowledged."""
    settings = MailboxSettings(capacity=None, in_flight_limit=10**7)
    mailboxes = Mailboxes(open_store(), settings)
    content, subscribers = pack_event({"price": 7, "symbol": "s1"}), 10
    events = np.repeat(np.arange(EVENTS, dtype=np.int32), subscribers)
    codes = np.tile(np.arange(1, subscribers + 1, dtype=np.int32), EVENTS)
    began = time.perf_counter()
    for number in range(batches):
        mailboxes.deliver(
            DeliveryBatch(
                events,
                codes.astype(np.int64),
                codes,
                np.zeros(EVENTS * subscribers, np.int16),
                np.arange(EVENTS) + number * EVENTS,
                [content] * EVENTS,
                key=f"batch-{number}",
            )
        )
        for code in range(1, subscribers + 1):
            found = mailboxes.poll(code, EVENTS)
            assert len(found) == EVENTS
            assert mailboxes.ack(code, found).accepted == EVENTS
    seconds = time.perf_counter() - began
    mailboxes.close()
    again = Mailboxes(open_store(), settings)
    assert again.stats_of(1).waiting == 0, "all of it was acknowledged"
    again.close()
    return batches * EVENTS * subscribers / seconds


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks stores", description=__doc__)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--single", type=int, default=500)
    parser.add_argument("--batches", type=int, default=20)
    options = parser.parse_args(arguments)
    table = Table("", "SQLite", "PostgreSQL", "ratio", title="stores on this machine, both with fsync")
    with tempfile.TemporaryDirectory() as folder, TemporaryPostgres(durable=True) as postgres:
        registries: list[Callable[[], RegistryStore]] = [
            lambda: RegistryStore(Path(folder) / "registry.sqlite", role="registry"),
            lambda: open_registry_store(postgres.url("bench"), role="registry"),
        ]
        mailboxes: list[Callable[[], MailboxStore]] = [
            lambda: MailboxStore(Path(folder) / "mailboxes.sqlite"),
            lambda: open_mailbox_store(postgres.url("bench")),
        ]
        rows = {
            "subscribe_many, texts/s": [in_bulk(each, options.texts) for each in registries],
            "subscribe, p50 in ms": [one_by_one(each, options.single) for each in registries],
            "deliveries/s, delivered, polled and acknowledged": [
                deliveries(each, options.batches) for each in mailboxes
            ],
        }
    for name, (ours, theirs) in rows.items():
        table.add_row(name, f"{ours:,.2f}", f"{theirs:,.2f}", f"{theirs / ours:.2f}")
    Console().print(table)
