"""Counts how often a subscription would have matched historical events, before anybody subscribes. No server is needed.

The subscriptions travel to Spark's Python workers as one packed index; each task matches its events there and yields counts and a few
examples, which Spark adds up. Events never pass through the driver.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from pyspark.errors import PythonException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from actors.mailboxes.event_content import unpack_event
from ray_pubsub.errors import SettingError, TableError
from ray_pubsub.model.arguments import check_whole
from spark_bridge.backtesting.given_subscriptions import GivenSubscriptions, given_subscriptions
from spark_bridge.backtesting.result import Backtest, BadRows, Example
from spark_bridge.backtesting.tally import BAD, EXAMPLE, MATCHED, MATCHES, PARTIAL_SCHEMA, ROWS
from spark_bridge.backtesting.windows import Window
from spark_bridge.backtesting.worker import Counting, counting_function
from spark_bridge.backtesting.worker_index import pack
from spark_bridge.event_schema import event_columns, moment_column
from spark_bridge.worker_python import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["backtest"]

EXAMPLES_AT_MOST = 10_000
"""The largest number of examples of all subscriptions together, which bounds the driver's memory. The first subscriptions get them."""


def backtest(
    subscriptions: Any,
    historical: DataFrame,
    *,
    columns: Iterable[str] | None = None,
    event_id: str | None = None,
    examples: int = 5,
    by: str | None = None,
    window: str = "1 day",
) -> Backtest:
    """Counts how often each subscription would have matched the events of a DataFrame, and shows examples.

    subscriptions: one expression, a list of them, a dict by id, a MatchIndex, or a pyarrow, pandas or Spark table with id and expression.
    columns: the columns that are attributes (`item.price` is a field of a struct); all, if not given.
    event_id: the column that names the examples.
    examples: the largest number of example events for each subscription, and at most 10,000 in all: with many subscriptions, only the first
        ones have examples.
    by: a column of timestamps or dates; matches are then also counted per `window` ("1 day", "15 minutes", "month") of the session's
        wall clock.

    Errors that can be found before any job runs are raised at once: EventSchemaError, TableError, ExpressionError. Bad events and, among
    several, bad subscriptions are counted in the result. It runs as one Spark job with one shuffle of counts; Spark shows its progress.
    """
    check_whole("examples", examples, 0)
    if not hasattr(historical, "mapInArrow"):
        raise SettingError("historical", f"a Spark DataFrame, not {type(historical).__name__}")
    if historical.isStreaming:
        raise TableError(None, "a stream has no end; back-test what it has written, or a batch read of its source")
    examples = min(examples, EXAMPLES_AT_MOST)
    given = given_subscriptions(subscriptions)
    schema = historical.schema
    chosen = event_columns(schema, columns, event_id)
    parsed = Window.parse(window)
    moment = None if by is None else moment_column(schema, by)
    counting = Counting(
        index=pack(given.index),
        subscriptions=len(given.ids),
        attributes=chosen.names,
        has_id=event_id is not None,
        window=None if moment is None else parsed,
        examples=examples,
        with_examples=min(len(given.ids), EXAMPLES_AT_MOST // examples) if examples else 0,
    )
    events = chosen.select(historical, *([] if moment is None else [moment]))
    partial = map_in_arrow(events, counting_function(counting), PARTIAL_SCHEMA)
    where = F.struct("partition", "position")
    added_up = partial.groupBy("part", "subscription", "window", "reason").agg(
        F.sum("number").alias("number"),
        F.min_by(
            F.struct("partition", "position", "event_id", "event"),
            F.when(F.col("event").isNotNull(), where),
            max(1, examples),
        ).alias("examples"),
    )
    try:
        totals = added_up.toArrow()
    except PythonException as error:
        raise _explained(error) from error
    return _result(given, totals, None if moment is None else str(parsed))


def _explained(error: PythonException) -> Exception:
    """Explains the most frequent error: Spark's workers run a Python in which a package is missing."""
    if "ModuleNotFoundError" not in str(error):
        return error
    return SettingError(
        "PYSPARK_PYTHON",
        "Spark's Python workers run a Python that lacks a package (named below); before the session starts, set it to one that has "
        f"ray-pubsub[spark] on every node:\n{str(error).strip().splitlines()[-1]}",
    )


def _result(given: GivenSubscriptions, totals: Any, window: str | None) -> Backtest:
    """Builds the result from the rows that Spark added up."""
    parts = {part: totals.filter(pc.equal(totals["part"], part)) for part in (ROWS, MATCHED, MATCHES, BAD, EXAMPLE)}
    counts = np.zeros(len(given.ids), dtype=np.int64)
    of = parts[MATCHES]["subscription"].to_numpy()
    number = parts[MATCHES]["number"].to_numpy()
    np.add.at(counts, of, number)
    rows = parts[ROWS]
    bad = [
        BadRows(first["event"].decode(), count)
        for first, count in zip(
            (examples[0] for examples in parts[BAD]["examples"].to_pylist()),
            parts[BAD]["number"].to_pylist(),
            strict=True,
        )
    ]
    found = {
        subscription: [Example(one["event_id"], unpack_event(one["event"])) for one in sorted(some, key=_place)]
        for subscription, some in zip(
            parts[EXAMPLE]["subscription"].to_pylist(), parts[EXAMPLE]["examples"].to_pylist(), strict=True
        )
    }
    windows: list[datetime.datetime | None] = []
    window_rows = np.empty(0, dtype=np.int64)
    cells = None
    if window is not None:
        ordered = rows.sort_by([("window", "ascending")])  # null comes last
        windows = ordered["window"].to_pylist()
        window_rows = ordered["number"].to_numpy()
        numbers = {start: place for place, start in enumerate(windows)}
        encoded = parts[MATCHES]["window"].combine_chunks().dictionary_encode(null_encoding="encode")
        translated = np.array([numbers[start] for start in encoded.dictionary.to_pylist()], dtype=np.int64)
        cells = (of, translated[encoded.indices.to_numpy()], number)
    return Backtest(
        ids=given.ids,
        expressions=given.expressions,
        counts=counts,
        rows=sum(rows["number"].to_pylist()),
        matched_rows=sum(parts[MATCHED]["number"].to_pylist()),
        bad=sorted(bad, key=lambda reason: (-reason.count, reason.reason)),
        rejections=given.rejections,
        window=window,
        windows=windows,
        window_rows=window_rows,
        cells=cells,
        found=found,
    )


def _place(example: dict[str, Any]) -> tuple[int, int]:
    return example["partition"], example["position"]
