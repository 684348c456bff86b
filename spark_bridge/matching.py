"""match_events: turns a DataFrame of events into a DataFrame of matches, by a server that runs beside Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import types as spark

from actors.client.preparing import new_request
from ray_pubsub.errors import SettingError, TableError
from ray_pubsub.model.arguments import check_seconds, check_whole
from spark_bridge.event_schema import EventColumn, EventColumns, event_columns, find_column, without_lengths
from spark_bridge.matching_worker import Matching, matching_function, reading_function
from spark_bridge.publishing_worker import Handoff
from spark_bridge.worker_python import map_in_arrow
from spark_bridge.worker_server import server_place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["BATCH_ROWS", "MAX_IN_FLIGHT", "PATIENCE", "TIMEOUT", "bad_events", "match_events"]

BATCH_ROWS = 8192
MAX_IN_FLIGHT = 4
TIMEOUT = 60.0
PATIENCE = 600.0
ERRORS = ("drop", "column", "fail")


def match_events(
    df: DataFrame,
    server: Any = "default",
    *,
    address: str | None = None,
    event_id: str | None = None,
    columns: Iterable[str] | None = None,
    keep: bool | Iterable[str] = False,
    metadata: bool = False,
    deliver: bool = False,
    strict: bool = True,
    errors: Literal["drop", "column", "fail"] = "drop",
    subscription_ids: Literal["string", "long"] = "string",
    batch_rows: int = BATCH_ROWS,
    max_in_flight: int = MAX_IN_FLIGHT,
    timeout: float = TIMEOUT,
    patience: float = PATIENCE,
) -> DataFrame:
    """The subscriptions that the events of a DataFrame match: a row for each match, with `event_id, subscription_id, subscriber, priority`.

    Lazy, like every DataFrame: events are matched each time it is evaluated, and it works on a stream too. A job that runs
    while subscriptions are added sees each of them from some batch on.

    server: a name, or what `ray_pubsub.connect` gave; `address`: of its Ray cluster, host:port, as Spark's tasks reach it. Every machine
        that runs tasks must run a node of that cluster.
    event_id: the column with the events' ids, strings or integers. Without one, the events of a DataFrame are numbered in each run,
        as by `monotonically_increasing_id`.
    columns: the columns that are attributes (`item.price` is a field of a struct); all, if not given.
    keep: True for all columns, or the columns of the event to keep beside its matches.
    metadata: also the columns `data` (JSON as text) and `tags` (array<string>) of each match's subscription, as the registry has them when
        a task first asks for them.
    deliver: also fill the mailboxes, once for each event, however often Spark runs a task. A repeated event is recognised by its `event_id`
        as in `Server.publish`, or else by its content, its partition and, in a stream, its micro-batch, among as many events as the
        server's mailbox setting `window` says. If a mailbox is full, the task waits.
    strict: a row with a value that cannot be used (a decimal of too many digits) is not a valid event. False: only that value is left out,
        and nothing reports it.
    errors: what is done with a row that is not a valid event (with `strict`, one of those; an id that is null; with `deliver` also a
        moment outside of the years 1 to 9999): "drop" omits it (`bad_events` finds it), "column" adds a column `error` and a row with the
        reason and no subscription, "fail" fails the job.
    subscription_ids: "long" for a bigint, if all ids are ints. As a string, an id 5 is "5".
    batch_rows: events in one call; `max_in_flight`: concurrent calls of one task.
    timeout: seconds that a task waits for a server that is down or restarting, before it fails and Spark repeats it;
        `patience`: the same for a server that is overloaded or a mailbox that is full.

    What cannot be matched is found before any job runs: EventSchemaError, TableError, SettingError.
    """
    if not hasattr(df, "mapInArrow"):
        raise SettingError("df", f"a Spark DataFrame, not {type(df).__name__}")
    if errors not in ERRORS:
        raise SettingError("errors", f"one of {', '.join(map(repr, ERRORS))}, not {errors!r}")
    if subscription_ids not in ("string", "long"):
        raise SettingError("subscription_ids", f'"string" or "long", not {subscription_ids!r}')
    place = server_place(server, address, timeout, df)
    chosen = event_columns(df.schema, columns, event_id)
    kept = _kept(df.schema, keep, event_id)
    matching = Matching(
        place,
        handoff(chosen, bool(deliver), bool(strict), batch_rows, max_in_flight, timeout, patience),
        len(kept),
        errors,
        subscription_ids,
        bool(metadata),
    )
    fields = [
        spark.StructField("event_id", id_type(chosen, bool(deliver))),
        spark.StructField("subscription_id", spark.LongType() if subscription_ids == "long" else spark.StringType()),
        spark.StructField("subscriber", spark.StringType()),
        spark.StructField("priority", spark.StringType()),
    ]
    if metadata:
        fields.append(spark.StructField("data", spark.StringType()))
        fields.append(spark.StructField("tags", spark.ArrayType(spark.StringType(), False)))
    if errors == "column":
        fields.append(spark.StructField("error", spark.StringType()))
    fields += [spark.StructField(column.attribute, without_lengths(column.type)) for column in kept]
    _refuse_equal([field.name for field in fields])
    events = chosen.select(df, *kept, partition=chosen.event_id is None)
    return map_in_arrow(events, matching_function(matching), spark.StructType(fields))


def bad_events(
    df: DataFrame,
    *,
    event_id: str | None = None,
    columns: Iterable[str] | None = None,
    deliver: bool = False,
    strict: bool = True,
) -> DataFrame:
    """Returns the rows that `match_events` would omit, as `event_id` (if it is given) and `error`. No server is needed."""
    chosen = event_columns(df.schema, columns, event_id)
    fields = [] if event_id is None else [spark.StructField("event_id", id_type(chosen, False))]
    fields.append(spark.StructField("error", spark.StringType()))
    read = reading_function(chosen.names, event_id is not None, bool(deliver), bool(strict))
    return map_in_arrow(chosen.select(df), read, spark.StructType(fields))


def handoff(
    chosen: EventColumns,
    deliver: bool,
    strict: bool,
    batch_rows: int,
    max_in_flight: int,
    timeout: float,
    patience: float,
) -> Handoff:
    """Checks and returns the settings of a handoff."""
    for name, value in (("batch_rows", batch_rows), ("max_in_flight", max_in_flight)):
        check_whole(name, value, 1)
    check_seconds("patience", patience)
    return Handoff(
        attributes=chosen.names,
        has_id=chosen.event_id is not None,
        deliver=deliver,
        strict=strict,
        scope=new_request(),
        batch_rows=batch_rows,
        max_in_flight=max_in_flight,
        timeout=float(timeout),
        patience=float(patience),
    )


def id_type(chosen: EventColumns, deliver: bool) -> spark.DataType:
    if chosen.event_id is None:
        return spark.StringType() if deliver else spark.LongType()
    found: spark.DataType = without_lengths(chosen.event_id.type)
    return found


def _kept(schema: spark.StructType, keep: bool | Iterable[str], event_id: str | None) -> list[EventColumn]:
    if isinstance(keep, str):
        raise SettingError("keep", f"True, or a list of names; write keep=[{keep!r}]")
    if isinstance(keep, bool):
        # The id has a column of this name already.
        names = [name for name in schema.names if not (name == event_id == "event_id")] if keep else []
    else:
        names = list(dict.fromkeys(keep))
    kept = [find_column(schema, name) for name in names]
    for column in kept:
        if isinstance(column.type, (spark.CalendarIntervalType, spark.YearMonthIntervalType)):
            raise TableError(
                column.attribute,
                f"Spark hands no {column.type.simpleString()} to Python; cast it to a string, or list others in keep=[…]",
            )
    return kept


def _refuse_equal(names: list[str]) -> None:
    known: set[str] = set()
    for name in names:
        if name.lower() in known:
            raise TableError(
                name, "the output would have two columns of this name; rename it, or list others in keep=[…]"
            )
        known.add(name.lower())
