"""Events made ready to travel: good ones in columns, ids, what is delivered of each, and the bad ones by position."""

from __future__ import annotations

import datetime
import json
from typing import Any

import msgpack
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from actors.client.preparing import new_request, prepare
from actors.coordinator.delivering import packed_contents
from actors.mailboxes.event_content import unpack_event
from actors.transport.event_codec import decode_events, encode_events
from actors.transport.published_events import PublishRequest, read_publish_request
from ray_pubsub.columns.json.documents import documents_of
from ray_pubsub.errors import EventError, SettingError
from ray_pubsub.model.dict_events import from_dicts


def contents(prepared: Any) -> list[Any]:
    found, errors = packed_contents(prepared, np.arange(len(prepared)))
    assert errors == [] and found is not None
    return [None if each is None else unpack_event(each) for each in found]


@pytest.mark.parametrize("form", ["list", "iterator", "table", "batch", "reader", "frame"])
def test_whatever_events_come_as(form: str) -> None:
    events = [{"x": 1, "id": "a"}, {"x": 2, "id": "b"}]
    table = pa.Table.from_pylist(events)
    given = {
        "list": events,
        "iterator": iter(events),
        "table": table,
        "batch": table.to_batches()[0],
        "reader": table.to_reader(),
        "frame": pd.DataFrame(events),
    }[form]
    prepared = prepare(given, "id", "request")
    assert (len(prepared), prepared.batch.size, prepared.positions, prepared.errors) == (2, 2, None, [])
    assert (prepared.ids.tolist(), prepared.keys(), prepared.given_ids) == (["a", "b"], ["a", "b"], True)
    assert contents(prepared) == events
    assert prepared.nbytes > 0


@pytest.mark.parametrize("count", [3, 30], ids=["few", "many"])
def test_json_documents(count: int) -> None:
    """Read into columns, and delivered as they came; few are read in another way than many."""
    events: list[Any] = [{"x": number, "id": f"e{number}", "in": {"s": "é\n"}, "none": None} for number in range(count)]
    lines = [json.dumps(event, ensure_ascii=number % 2 == 0) for number, event in enumerate(events)]
    lines[1], events[1] = '{"x": 1, "id": ', None
    lines[2] = "\ufeff  " + lines[2]
    prepared = prepare(documents_of("\n".join(lines)), "id", "request")
    good = [event for event in events if event is not None]
    assert prepared.batch.rows() == from_dicts(good).rows()
    assert [error.position for error in prepared.errors] == [1]
    assert prepared.ids.tolist() == [None if event is None else event["id"] for event in events]
    assert contents(prepared) == events
    assert prepare(documents_of(lines), "id", "request", contents=False).contents is None
    encoded, _ = decode_events(*encode_events(prepared.batch))
    assert encoded.rows() == prepared.batch.rows()


def test_json_that_cannot_be_sent() -> None:
    """A key with half of a surrogate pair: its event is bad, the others go on."""
    prepared = prepare(documents_of(['{"x": 1}', '{"\\ud800": 1, "x": 2}', '{"x": 3}']), None, "request")
    assert [(error.position, error.reason) for error in prepared.errors] == [(1, "has a key that is not valid Unicode")]
    assert [row["x"].plain for row in prepared.batch.rows()] == [1, 3]


def test_events_without_ids_get_some() -> None:
    first, second = (prepare([{"x": 1}, {"x": 2}], None, new_request()) for _ in range(2))
    again = prepare([{"x": 1}, {"x": 2}], None, "my own name")
    assert again.ids.tolist() == prepare([{"x": 1}, {"x": 2}], None, "my own name").ids.tolist()
    ids = [*first.ids.tolist(), *second.ids.tolist(), *again.ids.tolist()]
    assert len(set(ids)) == 6 and all(0 <= identity < 2**63 for identity in ids)
    assert first.keys() is None  # nobody knows them, so nobody repeats them


def test_bad_events_are_apart() -> None:
    prepared = prepare([{"x": 1}, 5, {"x": b"1"}, {"x": 2}], None, "request", strict=True)
    assert (prepared.batch.size, prepared.positions.tolist(), len(prepared)) == (2, [0, 3], 4)  # type: ignore[union-attr]
    assert [error.position for error in prepared.errors] == [1, 2]
    assert contents(prepared) == [{"x": 1}, None, None, {"x": 2}]


def test_only_what_matches_is_packed() -> None:
    prepared = prepare(pa.table({"x": [1, 2, 3]}), None, "request")
    packed, _ = packed_contents(prepared, np.array([1]))
    assert packed is not None
    assert [None if each is None else unpack_event(each) for each in packed] == [None, {"x": 2}, None]


def test_without_contents() -> None:
    prepared = prepare([{"x": 1}], None, "request", contents=False)
    assert packed_contents(prepared, np.array([0])) == (None, [])


def test_a_frame_is_delivered_without_loss() -> None:
    """Arrow would make one type of dates and times, and cannot hold what is no Unicode; those go row by row."""
    moment = datetime.datetime(2024, 5, 1, 10, 30)
    frame = pd.DataFrame({"x": [1, 2], "when": [moment.date(), moment]}, dtype=object)
    assert [each["when"] for each in contents(prepare(frame, None, "request"))] == [moment.date(), moment]
    mixed = prepare(pd.DataFrame({"x": [1, 2, 3], "s": ["a", "\ud800", 5]}), None, "request", strict=True)
    assert [error.position for error in mixed.errors] == [1]
    assert contents(mixed) == [{"x": 1, "s": "a"}, None, {"x": 3, "s": 5}]


def test_an_arrow_map_is_a_dict() -> None:
    table = pa.table({"m": pa.array([[("k", 1), ("l", 2)]], pa.map_(pa.string(), pa.int64()))})
    assert contents(prepare(table, None, "request")) == [{"m": {"k": 1, "l": 2}}]


def test_what_is_refused() -> None:
    for events in (5, None, "text", b"bytes"):
        with pytest.raises(EventError):
            prepare(events, None, "request")
    for request in (5, None, "\ud800"):
        with pytest.raises(SettingError):
            prepare([{"x": 1}], None, request)  # type: ignore[arg-type]
    assert len(prepare(pd.Series([1, 2]), None, "request").errors) == 2


@pytest.mark.parametrize("unit", ["s", "ms", "us", "date"])
@pytest.mark.parametrize("form", ["table", "batch", "chunks"])
def test_moments_that_no_mailbox_can_hold_are_bad_events_if_they_are_to_be_delivered(unit: str, form: str) -> None:
    kind = pa.date32() if unit == "date" else pa.timestamp(unit)
    far = {"s": 10**12, "ms": 10**15, "us": 10**18, "date": 10**8}[unit]
    columns = {"x": [1, None, 3, 4], "when": pa.array([0, far, None, -far], kind)}
    events: Any = pa.record_batch(columns) if form == "batch" else pa.table(columns)
    if form == "chunks":
        events = pa.concat_tables([events.slice(0, 1), events.slice(1)])
    found = prepare(events, None, "r")
    assert found.positions is not None and found.positions.tolist() == [0, 2]
    assert (found.batch.size, len(found)) == (2, 4)
    assert [(error.position, error.attribute) for error in found.errors] == [(1, "when"), (3, "when")]
    contents, _ = packed_contents(found, np.array([0, 2]))
    assert contents is not None and [unpack_event(each)["x"] for each in contents if each is not None] == [1, 3]
    assert prepare(events, None, "r", contents=False).positions is None


def test_moments_of_a_zone_that_python_does_not_know_are_delivered_by_utc() -> None:
    found = prepare(pa.table({"when": pa.array([0, 1], pa.timestamp("s", "GMT-04:00"))}), None, "r")
    contents, _ = packed_contents(found, np.arange(2))
    assert contents is not None and contents[1] is not None
    assert unpack_event(contents[1]) == {"when": datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)}


@pytest.mark.parametrize(
    "absent", [pd.NA, pd.NaT, np.datetime64("NaT"), None, float("nan")], ids=["NA", "NaT", "numpy's NaT", "None", "NaN"]
)
def test_what_means_absent_harms_nobody_and_is_delivered_as_nothing(absent: Any) -> None:
    prepared = prepare([{"x": 1}, {"x": absent, "y": {"z": absent}}, {"x": 3}], None, "request")
    assert (prepared.errors, prepared.batch.size) == ([], 3)
    first, second, third = contents(prepared)
    assert (first, third) == ({"x": 1}, {"x": 3})
    assert all(value is None or value != value for value in (second["x"], second["y"]["z"]))


@pytest.mark.parametrize(
    "bad",
    [
        {"x": np.datetime64("20000-01-01")},
        {"x": pd.Timestamp(np.datetime64("20000-01-01", "s"))},
        {"x": 1, "na\ud800me": 2},
        {"x": "lone \udfff"},
        {"x": b"bytes"},
    ],
    ids=["year 20000 of numpy", "year 20000 of pandas", "surrogate in a name", "surrogate in a value", "bytes"],
)
def test_one_event_that_cannot_be_delivered_harms_no_other(bad: dict[str, Any]) -> None:
    prepared = prepare([{"x": 1}, bad, {"x": 3}], None, "request", strict=True)
    assert [error.position for error in prepared.errors] == [1]
    assert prepared.positions is not None and prepared.positions.tolist() == [0, 2]
    assert prepared.batch.size == 2
    assert contents(prepared) == [{"x": 1}, None, {"x": 3}]


def test_a_row_of_a_table_that_cannot_be_packed_harms_no_other() -> None:
    """What the publisher did not notice: the coordinator leaves out the row, and reports it."""
    beyond = pa.array([[0], [600_000_000_000], [1]], pa.list_(pa.timestamp("s")))
    prepared = prepare(pa.table({"x": [1, 2, 3]}), None, "request")
    prepared.contents = pa.table({"x": [1, 2, 3], "times": beyond})
    packed, errors = packed_contents(prepared, np.arange(3))
    assert packed is not None and [error.position for error in errors] == [1]
    assert [None if each is None else unpack_event(each)["x"] for each in packed] == [1, None, 3]


def test_what_an_earlier_release_has_packed_can_be_unpacked() -> None:
    old = {"t": msgpack.ExtType(1, b"NaT"), "u": msgpack.ExtType(1, b"20000-01-01"), "d": msgpack.ExtType(3, b"?")}
    assert unpack_event(msgpack.packb(old)) == {"t": None, "u": "20000-01-01", "d": "?"}


MAP = pa.map_(pa.string(), pa.uint64())
INNER = pa.struct([("big", pa.uint64()), ("small", pa.int64())])
TABLE = pa.table(
    {
        "x": [1, 2, 3],
        "blob": [b"1", None, b"3"],
        "in": pa.array([None, {"big": 2**63, "small": 2}, {"big": 3, "small": 3}], INNER),
        "map": pa.array([[("a", 1)], [("a", 1), ("b", 2**64 - 1)], None], MAP),
        "text": pa.array([b"a", b"\xff", b"c"]).view(pa.string()),
    }
)
USABLE = [
    {"x": 1, "blob": None, "in": None, "map": {"a": 1}, "text": "a"},
    {"x": 2, "blob": None, "in": {"big": None, "small": 2}, "map": None, "text": None},
    {"x": 3, "blob": None, "in": {"big": 3, "small": 3}, "map": None, "text": "c"},
]


@pytest.mark.parametrize("form", ["table", "batch", "chunks", "dictionary"])
def test_what_cannot_be_used_of_a_table_is_null(form: str) -> None:
    events: Any = TABLE.to_batches()[0] if form == "batch" else TABLE
    if form == "chunks":
        events = pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)])
    if form == "dictionary":
        place = pa.DictionaryArray.from_arrays([0, 1, 2], TABLE.column("text").chunk(0))
        events = TABLE.set_column(4, "text", place)
    prepared = prepare(events, None, "request")
    assert [(each.position, each.attribute) for each in prepared.warnings] == [
        (0, "blob"), (1, "in.big"), (1, "map.b"), (1, "text"), (2, "blob"),
    ]  # fmt: skip
    assert (prepared.errors, prepared.positions, prepared.warning_count) == ([], None, 5)
    assert contents(prepared) == USABLE
    request = PublishRequest(prepared, True, "key", 60.0)
    assert read_publish_request(request.frame()).events.contents.num_rows == 3  # it is checked there


def test_what_cannot_be_used_of_dicts_and_documents_is_missing() -> None:
    """As the event is matched, so it is delivered; an event that is bad for another reason has no warning."""
    events: list[Any] = [
        {"x": 1, "a": {"b": object(), "c": {"d": 1}}, "a.e": b"", "list": [1, b""]},
        {"x": "\ud800", "y": 2},
        {"x": b"", 5: 1},
        {"x": b"", "when": np.datetime64("20000-01-01")},
    ]
    prepared = prepare(events, None, "request")
    assert [(each.position, each.attribute) for each in prepared.warnings] == [
        (0, "a.b"), (0, "a.e"), (0, "list"), (1, "x"), (2, "5"), (2, "x"),
    ]  # fmt: skip
    assert [error.position for error in prepared.errors] == [3]
    assert contents(prepared) == [{"x": 1, "a": {"c": {"d": 1}}}, {"y": 2}, {}, None]
    assert prepare(events[:1], None, "request").warning_count == 3
    big = "99999999999999999999"
    for count in (1, 20):  # few are read in another way than many
        lines = [f'{{"x": {number}, "a": {{"b": [{big}], "c": {big}, "d": "é"}}}}' for number in range(count)]
        prepared = prepare(documents_of(lines), None, "request")
        assert (prepared.errors, prepared.warning_count) == ([], 2 * count)
        assert contents(prepared) == [{"x": number, "a": {"d": "é"}} for number in range(count)]


def test_what_is_given_twice_or_nested_too_deeply_is_missing() -> None:
    itself: dict[str, Any] = {"x": 1}
    itself["again"] = itself
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"n": deep}
    events: list[Any] = [{"a.b": 1, "a": {"b": 2, "c": 3}}, {"x": 1, "m": {"deep": deep}}, {"a": {"b": 2}}]
    for given in (events, documents_of(list(map(json.dumps, events))), documents_of(list(map(json.dumps, events * 9)))):
        prepared = prepare(given, None, "request")
        assert prepared.errors == []
        assert [(each.position, (each.attribute or "")[:8]) for each in prepared.warnings][:2] == [
            (0, "a.b"),
            (1, "m.deep.n"),
        ]
        first, second, third = contents(prepared)[:3]
        assert (first, second["x"], third) == ({"a": {"c": 3}}, 1, {"a": {"b": 2}})
    prepared = prepare([itself, {"x": 2}], None, "request")
    assert (prepared.errors, prepared.warning_count, contents(prepared)[0]["again"]["x"]) == ([], 1, 1)
    table = pa.table({"a.b": [1, None], "a": [{"b": 2, "c": 3}, {"b": 4, "c": 5}]})
    prepared = prepare(table, None, "request")
    assert [(each.position, each.attribute) for each in prepared.warnings] == [(0, "a.b")]
    rows = [{"a.b": None, "a": {"b": None, "c": 3}}, {"a.b": None, "a": {"b": 4, "c": 5}}]
    assert prepared.contents is not None and prepared.contents.to_pylist() == rows


def test_ids_beyond_64_bits_are_those_of_bad_events() -> None:
    prepared = prepare([{"id": 2**63, "x": 1}, {"id": "a", "x": 2}, {"id": -(2**63), "x": 3}], "id", "request")
    assert [(error.position, error.attribute) for error in prepared.errors] == [(0, "id")]
    assert (prepared.ids.tolist(), prepared.warnings) == ([None, "a", -(2**63)], [])
    assert prepared.positions is not None and prepared.positions.tolist() == [1, 2]


def test_a_bad_event_can_be_corrected_under_its_id() -> None:
    events = [{"id": 1, "x": 1}, {"id": 2, "x": b""}]
    assert prepare(events, "id", "request", strict=True).keys() == [1, None]
    assert prepare(events, "id", "request").keys() == [1, 2]


def test_few_warnings_are_kept_and_all_are_counted() -> None:
    prepared = prepare([{"x": b""}] * 150, None, "request")
    assert (len(prepared.warnings), prepared.warning_count) == (100, 150)
