"""Rows of Arrow that cannot be used are reported one by one; the others are read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.model.values import Kind, Value
from tests.unit.model.arrow_reading import problems

UNSUPPORTED: list[tuple[pa.DataType, Any]] = [
    (pa.list_(pa.binary()), [b"x"]),
    (pa.list_(pa.list_(pa.binary())), [[b"x"]]),
    (pa.binary(), b"x"),
    (pa.large_binary(), b""),
    (pa.binary(2), b"xx"),
    (pa.binary_view(), b"x"),
    (pa.time32("s"), 5),
    (pa.time64("us"), 5),
    (pa.duration("s"), 5),
    (pa.month_day_nano_interval(), (1, 2, 3)),
    (pa.uuid(), b"0" * 16),
]


@pytest.mark.parametrize(("kind", "value"), UNSUPPORTED, ids=[str(kind) for kind, _ in UNSUPPORTED])
def test_other_types_make_the_rows_bad_that_have_a_value(kind: pa.DataType, value: Any) -> None:
    table = pa.table({"k": [1, 2, 3, 4], "x": pa.array([None, value, None, value], kind)})
    batch = from_arrow(table)
    assert problems(batch) == [(1, "x"), (3, "x")]
    assert batch.rows() == [{"k": Value(Kind.NUMBER, 1)}, {"k": Value(Kind.NUMBER, 3)}]
    assert batch.positions is not None
    assert batch.positions.tolist() == batch.ids.tolist() == [0, 2]
    assert (batch.size, batch.input_size) == (2, 4)
    lenient = from_arrow(table, strict=False)
    assert not lenient.errors
    assert [(warning.position, warning.attribute) for warning in lenient.warnings] == [(1, "x"), (3, "x")]
    assert lenient.rows() == [{"k": Value(Kind.NUMBER, number)} for number in (1, 2, 3, 4)]


def test_unions_are_refused_row_by_row() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    assert problems(from_arrow(pa.table({"x": union}))) == [(0, "x"), (1, "x")]


def test_the_first_problem_of_a_row_is_reported() -> None:
    batch = from_arrow(pa.table({"x": pa.array([b"x", None]), "y": pa.array([b"y", b"y"])}))
    assert problems(batch) == [(0, "x"), (1, "y")]
    assert batch.size == 0


def test_a_bad_row_among_chunks() -> None:
    table = pa.concat_tables([pa.table({"x": pa.array([value, 1], pa.uint64())}) for value in (2**63, 5, 2**64 - 1)])
    batch = from_arrow(table)
    assert problems(batch) == [(0, "x"), (4, "x")]
    assert [row["x"].plain for row in batch.rows()] == [1, 5, 1, 1]
