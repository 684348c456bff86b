"""Sets become runs of records and come back from codes as they went in; every engine gives what the expression says."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ray_pubsub
from ray_pubsub.columns.clause_table import ClauseTable, records_of_test
from ray_pubsub.columns.coding import code_clauses
from ray_pubsub.columns.decoding import decode_clauses
from ray_pubsub.columns.test_records import Form
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.language.parser import parse
from ray_pubsub.language.tree import Leaf
from ray_pubsub.language.value_set import leaf_value_set
from ray_pubsub.workloads.segments import segments

SETS = {
    "x in (3, 1, 2)": [Form.INTERVAL, Form.CONTINUED, Form.CONTINUED],
    "x not in (5, 3)": [Form.EXCLUDED, Form.EXCLUDED | Form.CONTINUED],
    "x != 4": [Form.EXCLUDED],
    "x not between 2 and 7": [Form.INTERVAL, Form.CONTINUED],
    "x in ('b', 'a')": [Form.INTERVAL, Form.CONTINUED],
    "x not in ('b', 'a', 'c')": [Form.EXCLUDED, *[Form.EXCLUDED | Form.CONTINUED] * 2],
    "x != timestamp '2024-05-01 10:00:00'": [Form.EXCLUDED],
    "x like 'ab%'": [Form.OPAQUE],
    "x is null": [Form.OPAQUE],
}


def table_of(texts: list[str], vocabulary: Vocabulary) -> ClauseTable:
    table = ClauseTable.empty()
    for number, text in enumerate(texts):
        leaf = parse(text)
        assert isinstance(leaf, Leaf)
        allowed = leaf_value_set(leaf, False)
        table.append(number, records_of_test(vocabulary.attributes.number("x"), allowed, vocabulary, table))
    return table


@pytest.mark.parametrize("text", SETS)
def test_which_records_a_set_becomes(text: str) -> None:
    table = table_of([text], Vocabulary())
    assert table.tests["form"][: table.test_count].tolist() == SETS[text]


def test_sets_come_back_from_codes() -> None:
    """Coded again, what was decoded has the same codes: merging segments changes nothing."""
    vocabulary = Vocabulary()
    coded = code_clauses(table_of(list(SETS), vocabulary), vocabulary, sparseness=4)
    again = decode_clauses(coded, np.arange(len(SETS)), vocabulary)
    recoded = code_clauses(again, vocabulary, sparseness=4)
    for name in ("offsets", "column", "low", "high"):
        assert getattr(recoded, name).tolist() == getattr(coded, name).tolist(), name
    assert admitted(recoded) == admitted(coded)


def admitted(coded: Any) -> list[list[tuple[int, int]]]:
    """The code intervals of every test."""
    found = []
    for test, piece in enumerate(coded.pieces.tolist()):
        start, end = (coded.piece_offsets[piece], coded.piece_offsets[piece + 1]) if piece >= 0 else (0, 0)
        several = list(zip(coded.piece_low[start:end].tolist(), coded.piece_high[start:end].tolist(), strict=True))
        found.append(several or [(int(coded.low[test]), int(coded.high[test]))])
    return found


intervals = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.one_of(st.none(), st.integers(-3, 3)),
    st.one_of(st.none(), st.integers(-3, 3)),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(st.lists(intervals, min_size=1, max_size=6), min_size=1, max_size=8))
def test_rows_of_one_attribute_in_any_order_are_a_union(subscriptions: list[list[tuple[Any, ...]]]) -> None:
    rows = [(number, *row) for number, given_rows in enumerate(subscriptions) for row in given_rows]
    names = ("id", "attribute", "low", "high", "low_closed", "high_closed")
    kinds = (pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.bool_(), pa.bool_())
    columns = {
        name: pa.array(column, kind) for name, kind, column in zip(names, kinds, zip(*rows, strict=True), strict=True)
    }
    indexes = [ray_pubsub.MatchIndex(engine=engine) for engine in ("scan", "auto")]
    for index in indexes:
        index.add_predicates(pa.table(columns))
    events = [dict(zip("abc", values, strict=True)) for values in itertools.product((-3, 0, 2, None), repeat=3)]
    expected, found = ([sorted(matches) for matches in index.match_many(events)] for index in indexes)
    assert found == expected


def test_segments_match_alike_as_texts_and_as_rows() -> None:
    data = segments(400, events=60)
    texts, rows = ray_pubsub.MatchIndex(), ray_pubsub.MatchIndex()
    texts.add_many(range(400), data.texts())
    rows.add_predicates(data.predicates())
    oracle = ray_pubsub.MatchIndex(engine="scan")
    oracle.add_many(range(400), data.texts())
    expected = [sorted(matches) for matches in oracle.match_many(data.event_table())]
    assert sum(map(len, expected)) > 20
    assert [sorted(matches) for matches in texts.match_many(data.event_table())] == expected
    assert [sorted(matches) for matches in rows.match_many(data.event_table(numbered=True))] == expected
    assert [sorted(texts.match(data.event(number))) for number in range(60)] == expected
