"""DuckDB, evaluating the same terms and functions over a table with lists, must give the same answer, all three values of it.

What it does differently is in the table of docs/language.md and left out here (`exact`): overflow, division by zero, nulls among the
elements that any and all look at, what is absent beside them. Conditions on elements of lists are written for DuckDB with list_filter.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub.language.parser import parse
from ray_pubsub.language.printer import write
from ray_pubsub.language.terms import NOW
from ray_pubsub.language.truth import truth
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.model.values import Kind, Value
from tests.examples import scaled
from tests.rich_expressions import ON_NUMBERS, ON_STRINGS, on_scalars, rich_texts, typed_events

TABLE = pa.schema(
    {
        "row": pa.int64(), "n1": pa.float64(), "n2": pa.float64(), "n3": pa.float64(), "s1": pa.string(), "s2": pa.string(),
        "b1": pa.bool_(), "t1": pa.timestamp("us"), "t2": pa.timestamp("us"), "l1": pa.list_(pa.float64()), "l2": pa.list_(pa.string()),
        "l3": pa.list_(pa.string()),
        "o1": pa.list_(pa.struct({"n": pa.int64()})), "a1": pa.string(),
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


def answers(database: duckdb.DuckDBPyConnection, table: pa.Table, texts: list[str]) -> list[tuple[bool | None, ...]]:
    database.from_arrow(table).create_view("batch", replace=True)
    columns = ", ".join(f"({text})" for text in texts)
    return database.execute(f"select {columns} from batch order by row").fetchall()


@settings(max_examples=scaled(50))
@given(st.lists(rich_texts(exact=True), min_size=1, max_size=5), st.lists(typed_events(), min_size=1, max_size=6))
def test_every_answer_is_duckdbs(
    database: duckdb.DuckDBPyConnection, texts: list[str], events: list[dict[str, Any]]
) -> None:
    table = pa.Table.from_pylist([{"row": row, **event} for row, event in enumerate(events)], schema=TABLE)
    trees = [parse(text) for text in texts]
    rows = [{**flatten(event), NOW: Value(Kind.TIMESTAMP, time.time_ns() // 1000)} for event in table.to_pylist()]
    ours = [tuple(truth(tree, row) for tree in trees) for row in rows]
    assert answers(database, table, texts) == ours
    # What is printed means the same; an interval is printed as its microseconds, and `t < now()` with them: DuckDB has intervals there.
    printed = [
        text if "interval" in text or "current_" in text else write(tree)
        for text, tree in zip(texts, trees, strict=True)
    ]
    assert answers(database, table, printed) == ours


ELEMENTS = st.recursive(
    st.sampled_from(
        [
            "{0}n = 1",
            "{0}n > {0}m",
            "{0}s ilike 'A%'",
            "{0}n + {0}m in (2, 3)",
            "{0}m is null",
            "list_contains({0}l, 2)",
        ]
    ),
    lambda inner: st.one_of(
        inner.map(lambda text: f"not ({text})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda parts: f"({' '.join(parts)})"),
    ),
    max_leaves=3,
)
"""Conditions on an object; {0} stands before its attributes."""
OBJECTS = pa.list_(pa.struct({"n": pa.int64(), "m": pa.int64(), "s": pa.string(), "l": pa.list_(pa.int64())}))


@settings(max_examples=scaled(25))
@given(
    st.lists(ELEMENTS, min_size=1, max_size=3),
    st.lists(
        st.none()
        | st.lists(
            st.none()
            | st.fixed_dictionaries(
                {},
                optional={
                    "n": st.integers(0, 2), "m": st.integers(0, 2), "s": st.sampled_from(["a", "Ab", "b"]), "l": st.just([1, 2, None]),
                },
            ),
            max_size=3,
        ),
        min_size=1,
        max_size=4,
    ),
)  # fmt: skip
def test_conditions_on_objects_in_lists_are_duckdbs(
    database: duckdb.DuckDBPyConnection, conditions: list[str], lists: list[Any]
) -> None:
    table = pa.Table.from_pylist(
        [{"row": row, "items": items} for row, items in enumerate(lists)],
        schema=pa.schema({"row": pa.int64(), "items": OBJECTS}),
    )
    rows = [flatten(event) for event in table.to_pylist()]
    ours = [tuple(truth(parse(f"exists(items, {each.format('')})"), row) for each in conditions) for row in rows]
    present = "x is not null and "  # a null is no object, and nothing is true of it here
    texts = [f"len(list_filter(items, lambda x: {present}({each.format('x.')}))) > 0" for each in conditions]
    assert answers(database, table, texts) == ours


@settings(max_examples=scaled(25))
@given(
    st.lists(on_scalars(ON_NUMBERS), min_size=1, max_size=3),
    st.lists(on_scalars(ON_STRINGS), min_size=1, max_size=3),
    st.lists(typed_events(), min_size=1, max_size=6),
)
def test_conditions_on_elements_are_duckdbs(
    database: duckdb.DuckDBPyConnection, on_numbers: list[str], on_strings: list[str], events: list[dict[str, Any]]
) -> None:
    table = pa.Table.from_pylist([{"row": row, **event} for row, event in enumerate(events)], schema=TABLE)
    conditions = [*(("l1", each) for each in on_numbers), *(("l2", each) for each in on_strings)]
    trees = [parse(f"exists({name}, {each})") for name, each in conditions]
    ours = [tuple(truth(tree, flatten(event)) for tree in trees) for event in table.to_pylist()]
    texts = [f"len(list_filter({name}, lambda element: {each})) > 0" for name, each in conditions]
    assert answers(database, table, texts) == ours


octet = st.integers(0, 255)
addresses = st.one_of(
    st.tuples(octet, octet, octet, octet).map(lambda parts: ".".join(map(str, parts))),
    st.integers(0, 2**128 - 1).map(lambda number: str(ipaddress.IPv6Address(number))),
    st.sampled_from(["host", "", "1.2.3", "01.2.3.4", "::ffff:10.0.0.1", "fe80::1%eth0", "10.0.0.1/32"]),
)


@settings(max_examples=scaled(100))
@given(addresses, addresses, st.integers(0, 128))
def test_networks_are_pythons(address: str, other: str, bits: int) -> None:
    """Python's ipaddress is the second opinion: which texts are addresses, and which are in a network."""
    near = other if bits % 2 else address  # half of the networks have the address in them
    try:
        version = ipaddress.ip_address(near).version
        network = ipaddress.ip_network(f"{near}/{bits % 33 if version == 4 else bits}", strict=False)
    except ValueError:
        return
    try:
        expected: bool | None = ipaddress.ip_address(address) in network
    except ValueError:
        expected = None
    assert truth(parse(f"ip_in(a, '{network}')"), flatten({"a": address})) is expected


HAVERSINE = """2 * 6371.0088 * asin(least(1.0, sqrt(
    pow(sin(radians(lat - {0}) / 2), 2) + cos(radians({0})) * cos(radians(lat)) * pow(sin(radians(lon - {1}) / 2), 2))))"""


@settings(max_examples=scaled(25))
@given(
    st.tuples(st.floats(-90, 90), st.floats(-180, 180)),
    st.lists(st.tuples(st.floats(-90, 90), st.floats(-180, 180)), min_size=1, max_size=5),
    st.floats(0.1, 20_000),
)
def test_distances_are_duckdbs(
    database: duckdb.DuckDBPyConnection,
    center: tuple[float, float],
    places: list[tuple[float, float]],
    kilometres: float,
) -> None:
    """Within rounding: a place nearer to the circle than a metre may be on either side of it."""
    latitude, longitude = center
    for lat, lon in [*places, (math.nextafter(latitude, 0), longitude)]:
        asked = f"select {HAVERSINE.format(repr(latitude), repr(longitude))} from (select ? as lat, ? as lon)"
        (distance,) = database.execute(asked, (lat, lon)).fetchone() or (None,)
        if abs(distance - kilometres) > 1e-3:
            text = f"geo_within(lat, lon, {latitude!r}, {longitude!r}, {kilometres!r})"
            assert truth(parse(text), flatten({"lat": lat, "lon": lon})) is (distance < kilometres)


degree = st.integers(-20, 20).map(float)


@settings(max_examples=scaled(25))
@given(st.lists(st.tuples(degree, degree), min_size=3, max_size=8), st.floats(-21, 21), st.floats(-21, 21))
def test_what_lies_in_a_polygon_is_counted_edge_by_edge(
    corners: list[tuple[float, float]], east: float, north: float
) -> None:
    if len(corners) == 3 and corners[0] == corners[-1]:
        return
    crossed = 0
    for (x, y), (other_x, other_y) in zip(corners, [*corners[1:], corners[0]], strict=True):
        if (y > north) != (other_y > north) and east < (other_x - x) * (north - y) / (other_y - y) + x:
            crossed += 1
    text = ", ".join(f"{x} {y}" for x, y in corners)
    tree = parse(f"geo_in_polygon(lat, lon, 'POLYGON(({text}))')")
    assert truth(tree, flatten({"lat": north, "lon": east})) is bool(crossed % 2)


@pytest.mark.parametrize(
    "corners", ["0 0, 10. 0, 10 10, .5e0 10, 0 0", "0 0,10 0,10 10,0 10", "0 0, 0 10, 10 10, 10 0, 0 0"]
)
def test_corners_of_a_polygon_may_be_written_in_either_order(corners: str) -> None:
    tree = parse(f"geo_in_polygon(lat, lon, 'Polygon (({corners}))')")
    assert [truth(tree, flatten({"lat": lat, "lon": 5})) for lat in (5, -1, 91)] == [True, False, None]
