"""Many subscriptions into the registry: in portions, with a bar for whoever waits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from actors.calls import Deadline, answer, retried
from actors.published_events import new_request
from actors.registry_arguments import check_subscriber
from actors.registry_bulk import TextColumns, text_columns
from ray_pubsub.errors import Rejection, TableError
from ray_pubsub.index.arrow_table import as_arrow_table
from ray_pubsub.index.match_index import AddReport

__all__ = ["load_subscriptions"]

PORTION = 20_000
"""Subscriptions in one transaction."""
LONG = 600.0
WORTH_A_BAR = 50_000


def load_subscriptions(
    registry: Any, table: Any, subscriber: str | None, atomic: bool, progress: bool | None, timeout: float
) -> AddReport:
    """Each portion is on disk, and in effect, before the next but one is sent; the report is of all."""
    if subscriber is not None:
        check_subscriber(subscriber)
    request = new_request()
    if _has_intervals(table):
        return _load_intervals(registry, as_arrow_table(table, "predicates"), subscriber, atomic, progress, request)
    columns = _columns(table, subscriber)
    size = len(columns) if atomic else PORTION
    added = 0
    rejections: list[Rejection] = []
    with _bar(progress, len(columns)) as advance:
        for start in range(0, len(columns), max(1, size)):
            portion = TextColumns(
                *(column[start : start + size] for column in (columns.ids, columns.subscribers, columns.texts))
            )
            report = _sent(registry, "subscribe_texts", portion, atomic, f"{request}/{start}")
            added += report.added
            rejections += [rejection.at(rejection.position + start) for rejection in report.rejections]
            advance(len(portion))
    return AddReport(added, rejections)


def _load_intervals(
    registry: Any, table: Any, subscriber: str | None, atomic: bool, progress: bool | None, request: str
) -> AddReport:
    """In one transaction: an id's rows may stand anywhere in the table."""
    with _bar(progress, table.num_rows) as advance:
        report = _sent(registry, "subscribe_intervals", table, subscriber, atomic, request)
        advance(table.num_rows)
    return report


def _sent(registry: Any, method: str, *arguments: Any) -> AddReport:
    def call(timeout: float) -> AddReport:
        report: AddReport = answer(getattr(registry, method).remote(*arguments), "the registry", timeout)
        return report

    return retried(call, Deadline(LONG))


def _columns(table: Any, subscriber: str | None) -> TextColumns:
    if subscriber is None:
        return text_columns(table)
    table = as_arrow_table(table, "subscriptions")
    for name in ("id", "expression"):
        if name not in table.column_names:
            raise TableError(name, "missing; subscriptions have the columns id and expression")
    return TextColumns(
        table.column("id").to_pylist(), [subscriber] * table.num_rows, table.column("expression").to_pylist()
    )


def _has_intervals(table: Any) -> bool:
    names = getattr(table, "column_names", None) or list(getattr(table, "columns", ()))
    if hasattr(table, "schema") and hasattr(table.schema, "names"):
        names = table.schema.names
    return "attribute" in names and "expression" not in names


@contextmanager
def _bar(progress: bool | None, rows: int) -> Iterator[Any]:
    if not (progress or (progress is None and rows >= WORTH_A_BAR and sys.stderr.isatty())):
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("subscribing", total=rows)
        yield lambda count: bar.advance(task, count)
