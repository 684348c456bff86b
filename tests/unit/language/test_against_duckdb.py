"""DuckDB, evaluating the same text over a table of the same events, must give the same answer, all three values of it."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.language.parser import parse
from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import Tree
from ray_pubsub.language.truth import truth
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.model.values import INT64_MAX, INT64_MIN
from tests.generators import CONSTANTS, events_near, number_constants, trees

TABLE = pa.schema(
    {
        "row": pa.int64(),
        "n1": pa.float64(),
        "n2": pa.int64(),
        "a": pa.struct({"b": pa.float64()}),
        "s1": pa.string(),
        "s2": pa.string(),
        "b1": pa.bool_(),
        "t1": pa.timestamp("us"),
    }
)

# What DuckDB does differently is left out or rewritten here and nowhere else; DIFFERENCES below shows each.
#  - A number column has one type, and a constant of another type is rounded to it, or the column to the constant: a DOUBLE
#    column is compared with doubles only, a BIGINT column with integers and halves (which are decimals there).
#  - NaN is a number there, the largest one; here it means absent.
#  - `s regexp 'p'` is written regexp_matches(s, 'p').
#  - An event whose value has another kind than the column does not fit the table.


def _is_a_double(number: float) -> bool:
    return isinstance(number, float) or int(float(number)) == number


def _compares_exactly_with_integers(number: float) -> bool:
    return isinstance(number, int) or (abs(number) < 1000 and number % 0.5 == 0)


COMPARED_EXACTLY = {
    **CONSTANTS,
    "n1": number_constants.filter(_is_a_double),
    "a.b": number_constants.filter(_is_a_double),
    "n2": number_constants.filter(_compares_exactly_with_integers),
}
REGEXP = re.compile(r"""([\w.]+)( not)? regexp ('(?:[^']|'')*')|'(?:[^']|'')*'""")


def in_duckdb(text: str) -> str:
    return REGEXP.sub(
        lambda found: f"{found[2] or ''} regexp_matches({found[1]}, {found[3]})" if found[1] else found[0], text
    )


def stored(events: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{"row": row, **_stored(event)} for row, event in enumerate(events)], schema=TABLE)


def _stored(event: dict[str, Any]) -> dict[str, Any]:
    dotted = event["a"]["b"] if "a" in event else event.get("a.b")
    return {**event, "n1": _double(event.get("n1")), "n2": _bigint(event.get("n2")), "a": {"b": _double(dotted)}}


def _double(number: float | None) -> float | None:
    return None if number is None or math.isnan(number) else float(number)


def _bigint(number: float | None) -> int | None:
    return int(number) if (number is not None and abs(number) < 2**62) or number in (INT64_MIN, INT64_MAX) else None


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


def load(database: duckdb.DuckDBPyConnection, table: pa.Table) -> None:
    database.from_arrow(table).create_view("batch", replace=True)
    database.execute("create or replace temp table events as select * from batch")


def answers(database: duckdb.DuckDBPyConnection, texts: list[str]) -> list[tuple[bool | None, ...]]:
    """For each event, each expression's value."""
    columns = ", ".join(f"({in_duckdb(text)})" for text in texts)
    return database.execute(f"select {columns} from events order by row").fetchall()


def matches(database: duckdb.DuckDBPyConnection, texts: list[str]) -> set[tuple[int, int]]:
    """The (expression, row) pairs that pass WHERE, which is planned differently from a value."""
    queries = [f"select {place}, row from events where {in_duckdb(text)}" for place, text in enumerate(texts)]
    return set(database.execute(" union all ".join(queries)).fetchall())


@st.composite
def expressions_and_events(draw: st.DrawFn) -> tuple[list[Tree], pa.Table]:
    expressions = draw(EXPRESSIONS)
    return expressions, stored(draw(st.lists(events_near(expressions, wrong_kinds=False), min_size=1, max_size=8)))


EXPRESSIONS = st.lists(trees(COMPARED_EXACTLY, most_leaves=5), min_size=1, max_size=6)


@given(expressions_and_events())
def test_every_answer_is_duckdbs(database: duckdb.DuckDBPyConnection, drawn: tuple[list[Tree], pa.Table]) -> None:
    expressions, table = drawn
    texts = [write(tree) for tree in expressions]
    events = [flatten(event) for event in table.to_pylist()]
    ours = [tuple(truth(tree, event) for tree in expressions) for event in events]

    load(database, table)
    assert answers(database, texts) == ours
    assert matches(database, texts) == {
        (place, row) for row, values in enumerate(ours) for place, value in enumerate(values) if value is True
    }


SOME_EVENTS = [
    {},
    {"n1": 0.5, "n2": 5, "a": {"b": 1.5}, "s1": "abc", "s2": "it's", "b1": True, "t1": datetime.datetime(2024, 5, 1)},
    {"n1": -0.0, "n2": -(2**63), "s1": "", "s2": "100%", "b1": False, "t1": datetime.datetime(2024, 5, 1, 10, 30)},
    {"n1": math.inf, "n2": 2**63 - 1, "a": {"b": -math.inf}, "s1": "a\nb", "s2": "\U0010ffff"},
    {"n1": 5000.0, "n2": 2**53 + 1, "s1": "\u00c9", "s2": "\ue000", "b1": True},
]

WRITTEN_BY_HAND = [
    "5 < n1 or 5 >= n2",
    "null = n1 or 'abc' = s1",
    "n1 == .5 AND n2 <> +5",
    "n1 > 5. or n1 <= 5E3 and n2 > - 1",
    "n2 < double 'inf' and n2 > double '-inf' and n1 <= double 'infinity'",
    "n2 = 9223372036854775807 or n2 = -9223372036854775808 or n2 = 9007199254740993",
    "Not b1 oR n1 Is Not Null aNd s1 LIKE 'A%'",
    "not b1 = true and not n1 is null",
    "b1 or b1 and not b1",
    "(b1 or b1) and not not (b1)",
    "n1 between 0 and 1 and n2 between 1 and 5 or s1 not between 'a' and 'b'",
    '`n1` > 0 and "s1" > \'\' and "a".`b` > 0',
    "a . b = 1.5",
    "s2 = 'it''s' or s2 like '100!%' escape '!' or s2 like '%''%'",
    "s1 like 'a_b' or s1 like '%\n%' or s2 like '_'",
    "s1 like '' or s1 like '%%' and s1 not like '_%'",
    "s1 like 'abc' escape '' and s1 like 'a%' escape 'a'",
    "s1 regexp '^a.c$' or s1 regexp 'a.b' or s1 regexp '(?i)\u00e9'",
    "s2 > '\ud7ff' and s2 < '\U0010ffff'",
    "t1 = date '2024-05-01' or t1 > DATE'2024-05-01'",
    "t1 = timestamp '2024-05-01T10:30:00' or t1 <= timestamp '2024-05-01 10:30'",
    "t1 = timestamp '2024-05-01 10:30:00Z' or t1 = timestamp '2024-05-01 00:00:00.000000 UTC'",
    "t1 between date '0001-01-01' and timestamp '9999-12-31 23:59:59.999999'",
    "null or b1",
    "null and b1 or not null",
    "true and (false or n1 in (0, null))",
    "5 = 5 and 'abc' like 'a%' and null is null and 1 in (2, 1) and 3 not between 4 and 5",
    "5 = null or null in (1) or null not between 1 and 2",
    "n1 in (0.5) and n1 not in (1, 2) or n2 not in (null, 5)",
]


@pytest.mark.parametrize("text", WRITTEN_BY_HAND)
def test_texts_written_by_hand(database: duckdb.DuckDBPyConnection, text: str) -> None:
    load(database, stored(SOME_EVENTS))
    assert [value for (value,) in answers(database, [text])] == [
        truth(parse(text), flatten(event)) for event in SOME_EVENTS
    ]


NOON = datetime.datetime(2024, 5, 1, 12)

DIFFERENCES = [
    # text, event, our answer, DuckDB's
    ("n1 = 9007199254740993", {"n1": 2.0**53}, False, True),
    ("n2 = 9007199254740992e0", {"n2": 2**53 + 1}, False, True),
    ("n2 in (9007199254740993, 1e22)", {"n2": 2**53}, False, True),
    ("n1 > 5", {"n1": math.nan}, None, True),
    ("N1 > 5", {"n1": 6.0}, None, True),
    ("b1 = 1", {"b1": True}, None, True),
    ("t1 = '2024-05-01 12:00:00'", {"t1": NOON}, None, True),
    ("t1 = timestamp '2024-05-01 14:00:00+02:00'", {"t1": NOON}, True, False),
    ("s1 regexp 'b'", {"s1": "abc"}, True, duckdb.ParserException),
    ("s1 > 5", {"s1": "abc"}, None, duckdb.BinderException),
    ('"a.b" > 1', {"a": {"b": 1.5}}, True, duckdb.BinderException),
    ("s1 like 'a\u00e9%' escape '\u00e9'", {"s1": "a%"}, True, duckdb.SyntaxException),
]


@pytest.mark.parametrize(("text", "event", "ours", "theirs"), DIFFERENCES)
def test_known_differences(
    database: duckdb.DuckDBPyConnection, text: str, event: dict[str, Any], ours: bool | None, theirs: Any
) -> None:
    load(database, pa.Table.from_pylist([event], schema=TABLE))
    query = f"select ({text}) from events"

    assert truth(parse(text), flatten(event)) is ours
    if isinstance(theirs, type):
        with pytest.raises(theirs):
            database.execute(query)
    else:
        assert database.execute(query).fetchall() == [(theirs,)]


def test_a_date_has_no_time_of_day(database: duckdb.DuckDBPyConnection) -> None:
    text = "t1 = date '2024-05-01 10:30:00'"
    load(database, stored(SOME_EVENTS))
    assert [value for (value,) in answers(database, [text])] == [
        truth(parse(text), flatten(event)) for event in SOME_EVENTS
    ]
