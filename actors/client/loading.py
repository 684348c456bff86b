"""Sends many subscriptions to the registry, in portions, with a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from actors.client.preparing import new_request
from actors.registry.columns import TextColumns
from ray_pubsub.errors import Rejection
from ray_pubsub.model.add_report import AddReport
from ray_pubsub.model.arguments import check_name
from ray_pubsub.model.arrow.arrow_table import as_arrow_table
from ray_pubsub.model.as_list import as_lists, is_table
from ray_pubsub.model.metadata import given_columns

__all__ = ["load_subscriptions"]

PORTION = 20_000
"""The number of subscriptions in one transaction."""
WORTH_A_BAR = 50_000

Send = Callable[..., AddReport]
"""Calls a method of the registry, given by name, with its arguments."""


def load_subscriptions(
    send: Send,
    ids: Any,
    expressions: Any,
    subscriber: Any,
    data: Any,
    tags: Any,
    atomic: bool,
    progress: bool | None,
) -> AddReport:
    """Implements `Server.subscribe_many`. Each portion is on disk and in effect before the next one is sent; the report covers all
    portions. A table of intervals is sent in one transaction, because the rows of one id may be anywhere in it."""
    key = new_request()
    if expressions is None and _has_intervals(ids):
        table = as_arrow_table(ids, "predicates")
        with _bar(progress, table.num_rows) as advance:
            report = send("subscribe_intervals", table, subscriber, atomic, key, data, tags)
            advance(table.num_rows)
        return report
    columns = _columns(ids, expressions, subscriber)
    values, lists = given_columns(len(columns), ids, data, tags)
    columns = replace(columns, data=values, tags=lists)
    size = len(columns) if atomic else PORTION
    added = 0
    rejections: list[Rejection] = []
    with _bar(progress, len(columns)) as advance:
        for start in range(0, len(columns), max(1, size)):
            portion = columns.take(range(start, min(start + size, len(columns))))
            report = send("subscribe_texts", portion, atomic, f"{key}/{start}")
            added += report.added
            rejections += [rejection.at(rejection.position + start) for rejection in report.rejections]
            advance(len(portion))
    return AddReport(added, rejections)


def _has_intervals(given: Any) -> bool:
    if not is_table(given):
        return False
    names = list(given.columns) if hasattr(given, "to_dict") else given.schema.names
    return "attribute" in names and "expression" not in names


def _columns(ids: Any, expressions: Any, subscriber: Any) -> TextColumns:
    if isinstance(subscriber, str):
        check_name("subscriber", subscriber)
        identities, texts = as_lists(ids=ids, expressions=expressions)
        return TextColumns(identities, [subscriber] * len(identities), texts)
    return TextColumns(*as_lists(ids=ids, subscribers=subscriber, expressions=expressions))


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
