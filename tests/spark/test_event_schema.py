"""What of a DataFrame becomes an attribute is decided from its schema; every type, on real DataFrames, means what it means in process."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import types as t

from ray_pubsub import MatchIndex
from ray_pubsub.errors import EventSchemaError, SettingError, TableError
from spark_bridge import backtest, event_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UTC = datetime.UTC
EVERY_TYPE = t.StructType(
    [
        t.StructField("row", t.StringType()),
        t.StructField("tiny", t.ByteType()),
        t.StructField("small", t.ShortType()),
        t.StructField("whole", t.IntegerType()),
        t.StructField("long", t.LongType()),
        t.StructField("single", t.FloatType()),
        t.StructField("double", t.DoubleType()),
        t.StructField("price", t.DecimalType(10, 2)),
        t.StructField("wide", t.DecimalType(38, 18)),
        t.StructField("text", t.StringType()),
        t.StructField("flag", t.BooleanType()),
        t.StructField("instant", t.TimestampType()),
        t.StructField("wall", t.TimestampNTZType()),
        t.StructField("day", t.DateType()),
        t.StructField(
            "item",
            t.StructType(
                [
                    t.StructField("stock", t.IntegerType()),
                    t.StructField("maker", t.StructType([t.StructField("name", t.StringType())])),
                ]
            ),
        ),
        t.StructField("sparse", t.MapType(t.StringType(), t.DoubleType())),
        t.StructField("deep", t.MapType(t.StringType(), t.StructType([t.StructField("x", t.LongType())]))),
        t.StructField("nothing", t.NullType()),
    ]
)
ROWS: list[dict[str, Any]] = [
    {
        "row": "a",
        "tiny": -128,
        "small": 32767,
        "whole": 2**31 - 1,
        "long": 2**53 + 1,
        "single": 0.5,
        "double": 0.1,
        "price": Decimal("0.10"),
        "wide": Decimal("9007199254740993"),
        "text": "naïve \U0001f600",
        "flag": True,
        "instant": datetime.datetime(2024, 5, 1, 10, 30, 0, 123456, tzinfo=UTC),
        "wall": datetime.datetime(2024, 5, 1, 10, 30, 0, 123456),
        "day": datetime.date(2024, 5, 1),
        "item": {"stock": 3, "maker": {"name": "x"}},
        "sparse": {"color": 1.5, "a.b": 2.0},
        "deep": {"k": {"x": 1}, "l": {"x": None}},
        "nothing": None,
    },
    {
        "row": "b",
        "tiny": 127,
        "small": -32768,
        "whole": -(2**31),
        "long": 2**63 - 1,
        "single": float("inf"),
        "double": float("nan"),
        "price": Decimal("-12345678.90"),
        "wide": Decimal("0.000000000000000001"),
        "text": "",
        "flag": False,
        "instant": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "wall": datetime.datetime(1583, 1, 1),
        "day": datetime.date(1900, 2, 28),
        "item": {"stock": None, "maker": None},
        "sparse": {"color": None, "size": float("nan")},
        "deep": {},
        "nothing": None,
    },
    {"row": "c", **dict.fromkeys(EVERY_TYPE.names[1:])},
    {
        "row": "d",
        **dict.fromkeys(EVERY_TYPE.names[1:]),
        "long": 2**53,
        "double": float(2**53),
        "wide": Decimal("0.1"),
        "text": "naïve",
        "item": {"stock": 4, "maker": {"name": None}},
        "sparse": {"size": -0.0},
    },
]
CONSTANTS: dict[str, list[str]] = {
    "tiny": ["-128", "127"],
    "small": ["32767"],
    "whole": ["2147483647", "-2147483648"],
    "long": ["9007199254740993", "9007199254740992", "9223372036854775807"],
    "single": ["0.5", "double 'inf'"],
    "double": ["0.1", "9007199254740992", "9007199254740993"],
    "price": ["0.1", "-12345678.9", "0"],
    "wide": ["9007199254740993", "9007199254740992", "0.1", "1e-18"],
    "text": ["'naïve'", "''", "'naïve \U0001f600'"],
    "flag": ["true", "false"],
    "instant": ["timestamp '2024-05-01 10:30:00.123456'", "timestamp '1969-12-31 23:59:59.999999'"],
    "wall": ["timestamp '2024-05-01 10:30:00.123456'", "timestamp '1583-01-01 00:00:00'"],
    "day": ["date '2024-05-01'", "timestamp '1900-02-28 00:00:00'"],
    "item.stock": ["3", "4"],
    "item.maker.name": ["'x'"],
    "sparse.color": ["1.5"],
    "sparse.size": ["0"],
    "sparse.a.b": ["2"],
    "deep.k.x": ["1"],
    "deep.l.x": ["1"],
    "nothing": ["1"],
    "item": ["1"],
}
EXPRESSIONS = [
    *(f"{name} {test} {value}" for name, values in CONSTANTS.items() for value in values for test in ("=", "!=", "<", ">=")),
    *(f"{name} is {test}" for name in CONSTANTS for test in ("null", "not null")),
]  # fmt: skip


def matched_rows(frame: DataFrame, expressions: list[str], **options: Any) -> list[list[str | None]]:
    """For each expression the ids of the rows that match it: with enough examples, all of them are shown."""
    found = backtest(expressions, frame, examples=20, event_id="row", **options)
    assert found.bad == []
    shown = [sorted(str(example.event_id) for example in found.examples(number)) for number in range(len(expressions))]
    assert [len(ids) for ids in shown] == found.counts.tolist()
    return shown  # type: ignore[return-value]


def expected_rows(rows: list[dict[str, Any]], expressions: list[str]) -> list[list[str]]:
    index = MatchIndex(engine="scan")
    assert index.add_many(range(len(expressions)), expressions)
    pairs = list(index.match_many(rows, event_id="row").pairs())
    return [sorted(row for row, found in pairs if found == number) for number in range(len(expressions))]


@pytest.mark.usefixtures("session_zone")
def test_every_type_matches_as_in_process(spark: SparkSession) -> None:
    frame = spark.createDataFrame([tuple(row.values()) for row in ROWS], EVERY_TYPE)
    found = dict(zip(EXPRESSIONS, matched_rows(frame, EXPRESSIONS), strict=True))
    assert found == dict(zip(EXPRESSIONS, expected_rows(ROWS, EXPRESSIONS), strict=True))
    assert sum(map(len, found.values())) > 200


def test_char_and_varchar_are_strings(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
    try:
        frame = spark.sql(
            "select 'r' as row, cast('ab' as varchar(5)) as v, cast('ab' as char(2)) as c, "
            "map('k', cast('x' as varchar(3))) as m, named_struct('c', cast('y' as char(1))) as s"
        )
        assert isinstance(frame.schema["v"].dataType, t.VarcharType)
        expressions = ["v = 'ab'", "c like 'ab%'", "m.k = 'x'", "s.c = 'y'", "v = 'abc'"]
        assert matched_rows(frame, expressions) == [["r"], ["r"], ["r"], ["r"], []]
    finally:
        spark.conf.unset("spark.sql.preserveCharVarcharTypeInfo")


@pytest.mark.parametrize("zone", ["America/New_York", "GMT-04:00"])  # Spark knows zones that Arrow and Python do not
@pytest.mark.usefixtures("session_zone")
def test_a_timestamp_is_an_instant_and_a_timestamp_ntz_a_wall_clock(spark: SparkSession, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    frame = spark.sql(
        "select 'r' as row, timestamp'2024-07-01 10:00:00' as instant, timestamp_ntz'2024-07-01 10:00:00' as wall, date'2024-07-01' as day"
    )
    expressions = [
        "instant = timestamp '2024-07-01 14:00:00'",  # New York is four hours behind
        "instant = timestamp '2024-07-01 10:00:00-04:00'",
        "wall = timestamp '2024-07-01 10:00:00'",
        "day = timestamp '2024-07-01 00:00:00'",
    ]
    assert matched_rows(frame, expressions) == [["r"]] * 4


@pytest.mark.parametrize(
    ("column", "kind", "path"),
    [
        ("array(X'00')", "binary", "x[]"),
        ("X'00'", "binary", "x"),
        ("interval '1' day", "interval day", "x"),
        ("interval '1' year", "interval year", "x"),
        ("make_interval(1, 1)", "interval", "x"),
        ("parse_json('1')", "variant", "x"),
        ("time'10:00:00'", "time(6)", "x"),
        ("map(1, 'a')", "map<int,string>", "x"),
        ("map('a', array(X'00'))", "binary", "x.*[]"),
        ("named_struct('y', named_struct('z', X'00'))", "binary", "x.y.z"),
        ("map('a', named_struct('y', X'00'))", "binary", "x.*.y"),
    ],
)
def test_other_types_are_refused_before_a_job_runs(spark: SparkSession, column: str, kind: str, path: str) -> None:
    frame = spark.sql(f"select 1 as price, raise_error('a job ran') as text, {column} as x")
    with pytest.raises(EventSchemaError) as caught:
        backtest("price < 5", frame)
    assert [problem[:2] for problem in caught.value.problems] == [(path, kind)]
    assert f"{path} ({kind})" in str(caught.value)
    assert event_columns(frame.schema, ["price"]).names == ("price",)


def test_all_refused_columns_are_listed(spark: SparkSession) -> None:
    schema = spark.sql(
        "select array(X'00') as a, 1 as b, X'00' as c, named_struct('d', array(X'00'), 'e', 2) as s"
    ).schema
    with pytest.raises(EventSchemaError) as caught:
        event_columns(schema, event_id="s")
    assert [column for column, _, _ in caught.value.problems] == ["a[]", "c", "s.d[]", "s"]
    assert "event ids are strings or integers" in str(caught.value)
    assert event_columns(schema, ["b", "s.e"]).names == ("b", "s.e")


INT, MAP = t.IntegerType(), t.MapType(t.StringType(), t.IntegerType())


def struct(**fields: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


def test_columns_are_found_by_name_and_by_path() -> None:
    schema = struct(a=INT, s=struct(x=INT, t=struct(y=t.StringType(), **{"z.w": INT})), **{"p.q": INT}, m=MAP)
    assert event_columns(schema).names == ("a", "s.x", "s.t.y", "s.t.z.w", "p.q", "m")
    assert event_columns(schema, ["s.t", "p.q", "a", "s.t.y"]).names == ("s.t.y", "s.t.z.w", "p.q", "a")
    assert event_columns(schema, ["s.t.z.w"]).attributes[0].fields == ("t", "z.w")
    identity = event_columns(schema, ["a"], event_id="s.t.y").event_id
    assert identity is not None and identity.position == 1


@pytest.mark.parametrize("name", ["b", "A", "s.y", "a.x", "m.k", "s.", ".a", ""])
def test_a_column_that_is_not_there(name: str) -> None:
    schema = struct(a=INT, s=struct(x=INT), m=MAP)
    with pytest.raises(TableError, match="there is no such column; there are a, s, m"):
        event_columns(schema, [name])
    with pytest.raises(TableError, match="there is no such column"):
        event_columns(schema, event_id=name)


def test_two_columns_for_one_attribute() -> None:
    dotted = struct(s=struct(x=INT), **{"s.x": INT})
    with pytest.raises(TableError, match="one with a dot in its name and one nested"):
        event_columns(dotted)
    assert [column.position for column in event_columns(dotted, ["s.x"]).attributes] == [1]
    twice = t.StructType([t.StructField("a", t.LongType()), t.StructField("a", t.StringType())])
    with pytest.raises(TableError, match="two columns"):
        event_columns(twice)
    with pytest.raises(TableError, match="two columns of this name"):
        event_columns(twice, ["a"])
    with pytest.raises(TableError, match="a key of the map 'm' may give this attribute too"):
        event_columns(struct(m=MAP, **{"m.k": INT}))


def test_no_columns_at_all() -> None:
    for columns in ([], ["s"]):
        with pytest.raises(TableError, match="there is no column"):
            event_columns(struct(a=INT, s=struct()), columns)
    with pytest.raises(SettingError, match=r"columns=\['price'\]"):
        event_columns(struct(price=INT), "price")


def test_names_that_mislead_spark(spark: SparkSession) -> None:
    """Dots, backticks, and names that differ in case only, which Spark itself cannot tell apart."""
    rows = [(1, 2, 3, 4, 5, "r")]
    frame = spark.createDataFrame(rows, "a int, b int, c int, d int, e int, row string").toDF(
        "price", "Price", "x.y", "od`d", "c0", "row"
    )
    expressions = ["price = 1", "`Price` = 2", "x.y = 3", "`od``d` = 4", "c0 = 5", "price = 2"]
    assert matched_rows(frame, expressions) == [["r"]] * 5 + [[]]
