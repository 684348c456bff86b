"""Parts of timestamps, their beginnings and sums with intervals of months are DuckDB's, over the whole range of timestamps."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import duckdb
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.language.functions.moments import date_parts, date_trunc, to_timestamp, truncated_units
from ray_pubsub.language.parser import parse
from ray_pubsub.language.printer import write
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.language.terms import term_of
from ray_pubsub.language.tree import Comparison
from ray_pubsub.language.truth import value_of_term
from ray_pubsub.model.values import INT64_MAX, INT64_MIN, Kind, Value
from ray_pubsub.settings import Limits

DAY = 86_400_000_000
YEAR_ZERO = -719_528 * DAY
MOMENTS = [
    *(day * DAY + 45_296_789_012 for day in range(19_720, 19_800)),  # the ends of 2023 and of a February with 29 days
    *(YEAR_ZERO + offset for offset in (-400 * DAY, -1, 0, 366 * DAY - 1, 366 * DAY, 367 * DAY, 36_600 * DAY)),
    *(datetime.datetime(year, 12, day).toordinal() * DAY + YEAR_ZERO + 365 * DAY for year in (1999, 2000, 2020) for day in (30, 31)),
    *(9_000_000_000_000_000_000, -9_000_000_000_000_000_000, -1, 0, 1, 951_782_400_000_000),
]  # fmt: skip


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("create table moments as select unnest(?::bigint[]) as n", [MOMENTS])
        connection.execute("alter table moments add t timestamp; update moments set t = make_timestamp(n)")
        yield connection


def ours(text: str) -> list[object]:
    """The value of a term for every moment; a timestamp as its microseconds."""
    leaf = parse(f"{text} = null")
    assert isinstance(leaf, Comparison)
    values = [value_of_term(term_of(leaf.attribute), {"t": Value(Kind.TIMESTAMP, moment)}) for moment in MOMENTS]
    return [None if value is None else value.plain for value in values]


def duckdbs(database: duckdb.DuckDBPyConnection, term: str) -> list[object]:
    return [row[0] for row in database.execute(f"select {term} from moments").fetchall()]


@pytest.mark.parametrize("part", date_parts())
def test_parts(database: duckdb.DuckDBPyConnection, part: str) -> None:
    assert ours(f"date_part('{part}', t)") == duckdbs(database, f"date_part('{part}', t)")


@pytest.mark.parametrize("unit", truncated_units(False))
def test_beginnings(database: duckdb.DuckDBPyConnection, unit: str) -> None:
    assert ours(f"date_trunc('{unit}', t)") == duckdbs(database, f"epoch_us(date_trunc('{unit}', t)::timestamp)")


@pytest.mark.parametrize("sign", "+-")
@pytest.mark.parametrize(
    "interval",
    [
        "'1 month'", "1 month", "'2' months", "'13 months 1 day 01:30:00'", "'-1 month 30 days'", "1 quarter", "'1.5 years'",
        "'1 decade -1 second'", "'1 century'", "1 millennium", "'12 mons'", "'1 y 1 week'",
    ],
)  # fmt: skip
def test_sums_with_months(database: duckdb.DuckDBPyConnection, sign: str, interval: str) -> None:
    text = f"t {sign} interval {interval}"
    assert ours(text) == duckdbs(database, f"epoch_us({text})")


def test_every_day_of_a_leap_year_moves_by_every_number_of_months(database: duckdb.DuckDBPyConnection) -> None:
    term = "add_months(t, n)"
    days = [19_723 + day for day in range(366)]
    for months in range(-13, 14):
        found = database.execute(
            "select epoch_us(make_timestamp(day * ?) + to_months(?)) from (select unnest(?::bigint[]) as day)", [DAY, months, days]
        ).fetchall()  # fmt: skip
        leaf = parse(f"{term} = null")
        assert isinstance(leaf, Comparison)
        moved = [
            value_of_term(term_of(leaf.attribute), {"t": Value(Kind.TIMESTAMP, day * DAY), "n": Value(Kind.NUMBER, months)})
            for day in days
        ]  # fmt: skip
        assert [value.plain if value else None for value in moved] == [row[0] for row in found]


def test_what_is_beyond_64_bits_is_unknown() -> None:
    last, first = Value(Kind.TIMESTAMP, INT64_MAX), Value(Kind.TIMESTAMP, INT64_MIN + 1)
    for text, event in (("t + interval 1 month", last), ("t - interval 1 month", first)):
        leaf = parse(f"{text} = null")
        assert isinstance(leaf, Comparison)
        assert value_of_term(term_of(leaf.attribute), {"t": event}) is None
    months = [0.5, 10**18, -(10**18), True, "1"]
    index = MatchIndex()
    index.add("s", "add_months(t, n) is not null")
    assert [index.match({"t": datetime.datetime(2024, 1, 31), "n": each}) for each in months] == [[]] * 5
    assert all(date_trunc(unit, INT64_MIN + 1) is None for unit in ("year", "week", "hour"))


def test_intervals_with_and_without_months_in_one_shape() -> None:
    """The same text but for its interval: whichever kind comes first, and however often, the next is read as it is written."""
    texts = ["t > now() - interval '{}'", "t + interval '{}' < now()", "x = 1 and date_add(t, interval '{}') > y"]
    intervals = ["1 month", "1 day", "2 days", "1 month", "1 year", "3 days", "1 day 1 month", "30 days"]
    for given in (intervals, intervals[::-1], intervals * 2):
        shapes = ShapeCache(Limits())
        for interval in given:
            for text in texts:
                written = text.format(interval)
                assert write(shapes.parse(written).tree) == write(parse(written))


SECONDS = [
    0,
    1,
    -1,
    1.5,
    -1.5,
    1714559400,
    1714559400.123,
    1714559400123 / 1000,
    0.0000014,
    -0.0000016,
    9e12,
    1e18,
    -1e300,
]


def test_seconds_become_timestamps(database: duckdb.DuckDBPyConnection) -> None:
    for seconds in SECONDS:
        try:
            wanted = database.execute("select epoch_us(to_timestamp(?::double))", [seconds]).fetchall()[0][0]
        except duckdb.Error:  # beyond its range
            wanted = None
        assert to_timestamp(seconds) == wanted, seconds


WRITTEN = [
    "2024-05-01", "2024-05-01 10:30:00", "2024-05-01T10:30:00.25Z", " 2024-05-01 10:30:00.123456+02:00 ", "2024-05-01T10:30:00-0330",
    "1969-12-31 23:59", "yesterday", "", "2024-13-01", "2024-02-30T00:00", "2024-05-01T25:00:00", "12", "2024-05-01T10:30:00Z and more",
    "\uff12024-05-01",
]  # fmt: skip


def test_texts_become_timestamps_as_constants_do(database: duckdb.DuckDBPyConnection) -> None:
    database.execute("set timezone = 'UTC'")
    for text in WRITTEN:
        assert (
            to_timestamp(text)
            == database.execute("select epoch_us(try_cast(? as timestamptz))", [text]).fetchall()[0][0]
        ), text
