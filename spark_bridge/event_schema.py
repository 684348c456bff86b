"""Decides from the schema which columns of a DataFrame are attributes of events, on the driver, before any job runs.

Structs are flattened with dots by Spark itself, so that a Parquet scan reads only the requested fields. A map with string keys stays a map:
its keys are known only when its rows are read. Columns that no attribute can hold are rejected here, all in one error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as spark

from ray_pubsub.errors import EventSchemaError, SettingError, TableError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["EventColumn", "EventColumns", "event_columns", "find_column", "moment_column", "without_lengths"]

ATOMS = (
    spark.IntegralType,
    spark.FloatType,
    spark.DoubleType,
    spark.DecimalType,
    spark.StringType,
    spark.CharType,
    spark.VarcharType,
    spark.BooleanType,
    spark.TimestampType,
    spark.TimestampNTZType,
    spark.DateType,
    spark.NullType,
)
IDS = (spark.StringType, spark.CharType, spark.VarcharType, spark.IntegralType)
MOMENTS = (spark.TimestampType, spark.TimestampNTZType, spark.DateType)


@dataclass(frozen=True, slots=True)
class EventColumn:
    """A column that is handed to the matcher: its place in the DataFrame, and the attribute that it gives (or whose name it begins, if
    it is a map)."""

    attribute: str
    position: int
    """The position of the top-level column. Positions are used because Spark looks names up without regard to case, and we do not."""
    fields: tuple[str, ...]
    """The path of fields into its structs."""
    type: spark.DataType
    read_as: spark.DataType | None = None
    """The type to cast the column to, if not its own."""

    def of(self, frame: DataFrame) -> Column:
        """Returns the column of a DataFrame whose columns were renamed to their numbers."""
        column = frame[_number(self.position)]
        kind: Any = frame.schema.fields[self.position].dataType if self.fields else None
        for name in self.fields:
            if len({each.lower() for each in kind.names}) < len(kind.names):
                # Spark would not know which field is meant. A cast goes by position; but it reads all fields, so it is used only here.
                column, place = column.cast(_renumbered(kind)), kind.names.index(name)
                column, kind = column.getField(_number(place)), kind.fields[place].dataType
            else:
                column, kind = column.getField(name), kind[name].dataType
        # A char or varchar column has no Arrow type if Spark is configured to keep its length.
        target = self.read_as or without_lengths(self.type)
        return column if target == self.type else column.cast(target)


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The projection of a DataFrame onto its events: the attributes, then the event id if there is one."""

    attributes: tuple[EventColumn, ...]
    event_id: EventColumn | None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes, in the order of the columns."""
        return tuple(column.attribute for column in self.attributes)

    def select(self, frame: DataFrame, *beside: EventColumn, partition: bool = False) -> DataFrame:
        """Selects a column for each attribute, then the event id, then the number of the row's partition if `partition`, then the
        columns in `beside`. The columns are numbered, and the reader restores the `names`: mapInArrow looks columns up by name, where
        a dot or a difference in case would mislead it."""
        numbered = frame.toDF(*[_number(position) for position in range(len(frame.columns))])
        events = [*self.attributes, *([self.event_id] if self.event_id else [])]
        columns = [
            *(column.of(numbered) for column in events),
            *([F.spark_partition_id()] if partition else []),
            *(column.of(numbered) for column in beside),
        ]
        return numbered.select(*[column.alias(_number(place)) for place, column in enumerate(columns)])


def event_columns(
    schema: spark.StructType, columns: Iterable[str] | None = None, event_id: str | None = None
) -> EventColumns:
    """Returns the event columns of a DataFrame with this schema: all columns, or those named in `columns`, where `item.price` may be a
    field of a struct. `event_id` names the column that holds the events' ids.

    Raises EventSchemaError, which lists every column whose type is not a kind of value, or TableError for a column that does not exist.
    """
    if isinstance(columns, str):
        raise SettingError("columns", f"a list of names, not a single string; write columns=[{columns!r}]")
    if columns is None:
        chosen = [EventColumn(field.name, place, (), field.dataType) for place, field in enumerate(schema.fields)]
    else:
        chosen = [find_column(schema, name) for name in dict.fromkeys(columns)]
    problems: list[tuple[str, str, str]] = []
    leaves = list(dict.fromkeys(leaf for column in chosen for leaf in _leaves(column, problems)))
    identity = None if event_id is None else find_column(schema, event_id)
    if identity is not None and not isinstance(identity.type, IDS):
        problems.append((identity.attribute, _shown(identity.type), "event ids are strings or integers"))
    if problems:
        raise EventSchemaError(tuple(dict.fromkeys(problems)))
    if not leaves:
        raise TableError(None, "there is no column to take attributes from")
    _refuse_clashes(leaves)
    return EventColumns(tuple(leaves), identity)


def find_column(schema: spark.StructType, name: str) -> EventColumn:
    """Returns the column of this name or, if there is none, the struct field at this path."""
    places = [place for place, field in enumerate(schema.fields) if field.name == name]
    if len(places) > 1:
        raise TableError(name, "there are two columns of this name")
    if places:
        return EventColumn(name, places[0], (), schema.fields[places[0]].dataType)
    for place, field in enumerate(schema.fields):
        if name.startswith(f"{field.name}."):
            below = _field_below(field.dataType, name[len(field.name) + 1 :])
            if below is not None:
                return EventColumn(name, place, *below)
    raise TableError(name, f"there is no such column; there are {', '.join(schema.names[:20]) or 'none'}")


def moment_column(schema: spark.StructType, name: str) -> EventColumn:
    """Returns the column of this name, which must hold moments. It is read as the wall clock of the session's time zone."""
    found = find_column(schema, name)
    if not isinstance(found.type, MOMENTS):
        raise TableError(name, f"windows need a timestamp or a date, this is {_shown(found.type)}")
    return replace(found, read_as=spark.TimestampNTZType())


def _field_below(kind: spark.DataType, path: str) -> tuple[tuple[str, ...], spark.DataType] | None:
    if not isinstance(kind, spark.StructType):
        return None
    if kind.names.count(path) > 1:
        raise TableError(path, "there are two fields of this name in one struct")
    for field in kind.fields:
        if field.name == path:
            return (field.name,), field.dataType
        if path.startswith(f"{field.name}."):
            below = _field_below(field.dataType, path[len(field.name) + 1 :])
            if below is not None:
                return (field.name, *below[0]), below[1]
    return None


def _leaves(column: EventColumn, problems: list[tuple[str, str, str]]) -> Iterator[EventColumn]:
    """Yields the leaf columns of a column that may be a struct; those that cannot be used are added to `problems`."""
    if isinstance(column.type, spark.StructType):
        for field in column.type.fields:
            path = f"{column.attribute}.{field.name}"
            yield from _leaves(
                EventColumn(path, column.position, (*column.fields, field.name), field.dataType), problems
            )
        return
    before = len(problems)
    _judge(column.attribute, column.type, problems)
    if len(problems) == before:
        yield column


def _judge(path: str, kind: spark.DataType, problems: list[tuple[str, str, str]]) -> None:
    if isinstance(kind, spark.MapType):
        if not isinstance(kind.keyType, (spark.StringType, spark.CharType, spark.VarcharType)):
            problems.append((path, _shown(kind), "a map's keys are names of attributes, so strings"))
        _judge(f"{path}.*", kind.valueType, problems)
    elif isinstance(kind, spark.ArrayType):
        _judge(f"{path}[]", kind.elementType, problems)
    elif isinstance(kind, spark.StructType):  # the struct is inside a map or an array
        for field in kind.fields:
            _judge(f"{path}.{field.name}", field.dataType, problems)
    elif not isinstance(kind, ATOMS):
        problems.append((path, _shown(kind), _why_not(kind)))


def _why_not(kind: spark.DataType) -> str:
    if isinstance(kind, spark.BinaryType):
        return "bytes are no string; decode(…, 'UTF-8') or hex(…) makes one"
    if isinstance(kind, spark.VariantType):
        return "its kind may change from row to row; variant_get(…, 'type') gives it one"
    if isinstance(kind, (spark.AnsiIntervalType, spark.CalendarIntervalType)):
        return "an interval is no moment; extract a number from it"
    return "not a number, string, boolean, timestamp or date"


def _refuse_clashes(leaves: list[EventColumn]) -> None:
    known: dict[str, EventColumn] = {}
    for leaf in leaves:
        if leaf.attribute in known:
            nested = (
                "one with a dot in its name and one nested"
                if leaf.fields or known[leaf.attribute].fields
                else "both of this name"
            )
            raise TableError(
                leaf.attribute,
                f"two columns give this attribute, {nested}; rename one or name the others in columns=[…]",
            )
        known[leaf.attribute] = leaf
    for leaf in leaves:
        if isinstance(leaf.type, spark.MapType):
            below = next((name for name in known if name.startswith(f"{leaf.attribute}.")), None)
            if below is not None:
                raise TableError(
                    below,
                    f"a key of the map {leaf.attribute!r} may give this attribute too; rename one or leave it out",
                )


def without_lengths(kind: spark.DataType) -> Any:
    """Returns the type with char and varchar replaced by strings."""
    if isinstance(kind, (spark.CharType, spark.VarcharType)):
        return spark.StringType()
    if isinstance(kind, spark.ArrayType):
        return spark.ArrayType(without_lengths(kind.elementType), kind.containsNull)
    if isinstance(kind, spark.MapType):
        return spark.MapType(without_lengths(kind.keyType), without_lengths(kind.valueType), kind.valueContainsNull)
    if isinstance(kind, spark.StructType):
        fields = [
            spark.StructField(field.name, without_lengths(field.dataType), field.nullable, field.metadata)
            for field in kind.fields
        ]
        return spark.StructType(fields)
    return kind


def _renumbered(kind: spark.StructType) -> spark.StructType:
    return spark.StructType(
        [spark.StructField(_number(place), field.dataType, field.nullable) for place, field in enumerate(kind.fields)]
    )


def _shown(kind: spark.DataType) -> str:
    text = kind.simpleString()
    return text if len(text) <= 100 else text[:100] + "…"


def _number(position: int) -> str:
    return f"c{position}"
