"""Events read from JSON texts are the events that json.loads and the reader of dictionaries give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ray_pubsub import MatchIndex
from ray_pubsub.columns.json import json_events
from ray_pubsub.columns.json.json_events import from_json
from ray_pubsub.errors import EventError
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.select_events import select_events
from ray_pubsub.settings import LIST_ELEMENTS
from tests.examples import scaled

TESTED = ("n", "s", "a", "a.b", "a.b.c", "d.e", "é")
KEYS = ("n", "s", "a", "b", "c", "a.b", "b.c", "a.b.c", "d", "e", "d.e", "é", "x", "", "long key that nobody asks for")
NUMBERS = [
    "0", "-0", "1", "-1", "12", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "1e400", "-1e400", "0.1", "0.30000000000000004", "-0.0", "1.5", "1E5", "1e-7", "1.7976931348623157e308",
    "5e-324", "2.2250738585072014E-308", "12e+22", "9007199254740993.0", "123456789012345678901234567890", "0.1234567890123456789",
    "100000000000000000000.5", "NaN", "Infinity", "-Infinity",
]  # fmt: skip
CHARACTERS = 'ab"\\/\b\n\t\x7fé\ud7ff\U0001f600 '
SPACES = st.sampled_from(["", "", "", " ", "\t", "\r", "  "])


@st.composite
def string_texts(draw: st.DrawFn, plain: st.SearchStrategy[str] | None = None) -> str:
    """A string as JSON, some of its characters as \\u escapes; lone surrogates among them."""
    text = draw(plain if plain is not None else st.text(CHARACTERS, max_size=12))
    how = draw(st.integers(0, 3))
    if how == 0:
        return json.dumps(text)
    if how == 1:
        return json.dumps(text, ensure_ascii=False)
    parts = [f"\\u{ord(letter):04X}" if ord(letter) < 0x10000 and draw(st.booleans()) else "" for letter in text]
    written = [part or json.dumps(letter, ensure_ascii=False)[1:-1] for part, letter in zip(parts, text, strict=True)]
    if how == 3 and draw(st.integers(0, 4)) == 0:
        written.insert(0, draw(st.sampled_from(["\\ud800", "\\uDFFF", "\\ud83d\\ude00", "\\ude00\\ud83d"])))
    return '"' + "".join(written) + '"'


SCALARS = st.one_of(
    st.sampled_from(NUMBERS),
    st.integers(-(10**19), 10**19).map(str),
    st.floats().map(json.dumps),
    string_texts(),
    string_texts(),
    st.sampled_from(["true", "false", "null"]),
)


def object_texts(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    key = st.one_of(st.sampled_from(KEYS).map(json.dumps), string_texts(st.sampled_from(KEYS)))
    member = st.tuples(SPACES, key, SPACES, SPACES, values, SPACES).map(
        lambda parts: f"{parts[0]}{parts[1]}{parts[2]}:{parts[3]}{parts[4]}{parts[5]}"
    )
    return st.tuples(SPACES, st.lists(member, max_size=6)).map(lambda parts: "{" + parts[0] + ",".join(parts[1]) + "}")


VALUES = st.recursive(
    SCALARS,
    lambda values: st.one_of(
        object_texts(values), object_texts(values), st.lists(values, max_size=3).map(lambda each: f"[{','.join(each)}]")
    ),
    max_leaves=6,
)
DOCUMENTS = st.tuples(SPACES, object_texts(VALUES), SPACES).map("".join)


def expected(documents: Sequence[bytes], event_id: str | None = None) -> EventBatch:
    """As it would be written without a reader of JSON. What is not JSON is an event that is not a dictionary."""
    events: list[Any] = []
    for document in documents:
        try:
            events.append(json.loads(document.decode("utf-8-sig")))
        except (ValueError, RecursionError):
            events.append(None)
    return from_dicts(events, event_id, AttributeTree(TESTED))


def assert_same(found: EventBatch, wanted: EventBatch) -> None:
    assert found.rows() == wanted.rows()
    assert found.input_ids.tolist() == wanted.input_ids.tolist()
    assert [error.position for error in found.errors] == [error.position for error in wanted.errors]
    cells = found.cells()
    fresh = EventBatch(found.size, found.lanes, found.input_ids).cells()
    for name in ("offsets", "rows", "whole", "rest"):
        assert getattr(cells, name).tolist() == getattr(fresh, name).tolist()


PLAIN = [b'{"n": 1, "s": "x", "id": 1}', b'{"s": "y", "n": 2.5, "d": {"e": true}}'] * 4
"""Enough for a scan: few documents are not scanned."""


def check(documents: Sequence[bytes], event_id: str | None = None) -> None:
    for given_documents in (list(documents), [*PLAIN, *documents]):
        tree = AttributeTree(TESTED)
        assert_same(from_json(given_documents, event_id, tree), expected(given_documents, event_id))


@settings(max_examples=scaled(50))
@given(st.lists(DOCUMENTS.map(str.encode), max_size=4))
@example([b'{"a": {"b": 1}, "a": {"x": 2}}'])
@example([b'{"a.b": 1, "a": {"b": 2}}', b'{"a.b": null, "a": {"b": 2}}'])
@example([b'{"a": {"b": {"c": 1}}, "a.b": {"c": 2}}'])
@example([b'{"s": "x", "s": "y"}', b'{"s": "\\ud83d\\ude00"}', b'{"s": "\\ud83d"}', b'{"\\u0073": 1}'])
def test_documents_as_a_list(documents: list[bytes]) -> None:
    check(documents)


@settings(max_examples=scaled(30))
@given(st.lists(DOCUMENTS, min_size=1, max_size=4), st.sampled_from(["n", "s", "x"]))
def test_events_with_ids(documents: list[str], event_id: str) -> None:
    check([document.encode() for document in documents], event_id)


@settings(max_examples=scaled(50))
@given(DOCUMENTS, st.integers(0, 200), st.integers(0, 3), st.binary(max_size=3))
def test_documents_that_are_damaged(document: str, place: int, length: int, garbage: bytes) -> None:
    """Cut off, with bytes missing, with bytes that do not belong there; between two that are as they should be."""
    raw = document.encode()
    damaged = raw[:place] + garbage + raw[place + length :]
    check([b'{"n": 1, "s": "first"}', damaged, raw[:place], b'{"n": 1, "s": "last"}'])


@settings(max_examples=scaled(20))
@given(st.lists(DOCUMENTS, max_size=5), st.sampled_from(["\n", "\n\n", " \n\t\n", "\r\n"]), st.booleans())
def test_documents_as_lines(documents: list[str], between: str, text: bool) -> None:
    more = [document.decode() for document in PLAIN]
    for before in ([], more):
        lines = between.join(before + documents) + between
        found = from_json(lines if text else lines.encode(), None, AttributeTree(TESTED))
        assert_same(found, expected([document.encode() for document in before + documents]))


@settings(max_examples=scaled(30))
@given(st.lists(DOCUMENTS, min_size=1, max_size=3))
def test_all_attributes(documents: list[str]) -> None:
    for before in ([], PLAIN):
        listed: list[Any] = [*before, *documents]
        events: list[Any] = [json.loads(document) for document in listed]
        found, wanted = from_json(listed), from_dicts(events)
        assert found.rows() == wanted.rows()
        assert [error.position for error in found.errors] == [error.position for error in wanted.errors]


LISTS = st.lists(SCALARS, max_size=4).map(lambda each: f"[{' , '.join(each)}]")
CONDITIONS = (
    "list_contains(s, 'a')", "list_contains(s, 1)", "list_has_any(s, [2.5, true, 'ab'])", "s is null", "len(s) = 2",
    "exists(s, n is null)", "list_contains(a.b, 'a') and not list_contains(s, 'b')", "s = 'a'",
)  # fmt: skip


@settings(max_examples=scaled(30))
@given(st.lists(st.tuples(st.one_of(LISTS, SCALARS), LISTS), min_size=1, max_size=6))
def test_lists_are_matched_as_those_of_dicts(values: list[tuple[str, str]]) -> None:
    index = MatchIndex()
    for number, condition in enumerate(CONDITIONS):
        index.add(number, condition)
    documents = [f'{{"n": 1, "s": {first}, "a": {{"b": {second}}}}}' for first, second in values] * 8
    found, wanted = index.match_json(documents), index.match_many(list(map(json.loads, documents)))
    assert list(found) == list(wanted)
    assert [(each.position, each.attribute) for each in found.warnings] == [
        (each.position, each.attribute) for each in wanted.warnings
    ]


def test_lists_of_scalars_need_no_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = ['["a", "b\\n", null]', "[]", "[ 1 , 2.5e300, true ]", '["\\ud83d\\ude00"]', "[NaN, 1e400, 0.1]"]
    documents = [f'{{"s": {lists[number % 5]}, "n": {number}, "a.b": [{number}]}}' for number in range(40)]
    wanted = from_dicts(list(map(json.loads, documents)), None, AttributeTree(TESTED)).rows()
    monkeypatch.setattr(json_events, "_loaded", None)
    found = from_json(documents, None, AttributeTree(TESTED))
    assert found.rows() == wanted
    half = np.arange(0, 40, 2)
    assert select_events(found, half).rows() == wanted[::2]


def test_keys_with_escapes_need_no_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    """json.dumps writes every letter that is not ASCII as an escape."""
    events = [{"größe": place, "名前": {"k\\y": "x"}, 'a"b': [1], "unbekannt ü": 1, "😀": 2.5} for place in range(3)]
    tree = AttributeTree(["größe", "名前.k\\y", 'a"b', "😀", "absent ü"])
    wanted = from_dicts(events, None, tree).rows()
    monkeypatch.setattr(json_events, "_loaded", None)
    for plainly in (True, False):
        assert from_json([json.dumps(event, ensure_ascii=not plainly) for event in events], None, tree).rows() == wanted


def test_one_document_is_read_without_looking_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_events, "documents_of", None)
    tree = AttributeTree(["n", "é"])
    for text in ('{"n": 1, "é": "ü"}', '{"n": 1, "é": "ü"}\n'):
        for lines in (text, text.encode(), [text], [text.encode()]):
            assert from_json(lines, None, tree).rows() == from_dicts([json.loads(text)]).rows()
    assert from_json('{"n": 1, "id": "x"}', "id", tree).ids.tolist() == ["x"]


@pytest.mark.parametrize("size", [LIST_ELEMENTS, LIST_ELEMENTS + 1])
def test_the_longest_list(size: int) -> None:
    document = b'{"n": 1, "s": [' + b"1," * (size - 1) + b"1]}"
    batch = from_json([document, *PLAIN], None, AttributeTree(TESTED), strict=False)
    assert len(batch.warnings) == int(size > LIST_ELEMENTS)
    assert ("s" in batch.rows()[0]) == (size == LIST_ELEMENTS)


HOSTILE = [
    b"", b" ", b"{", b"}", b"{}", b"[]", b"[{}]", b"null", b"1", b'"a"', b"{}{}", b"{} x", b'{"n"}', b'{"n":}', b'{"n":1,}',
    b'{,"n":1}', b'{"n" 1}', b'{"n":01}', b'{"n":1.}', b'{"n":.5}', b'{"n":-}', b'{"n":+1}', b'{"n":1e}', b'{"n":--1}',
    b'{"n":0x1}', b'{"n":1_0}', b'{"n":nul}', b'{"n":nulL}', b'{"n":True}', b'{"n":Nan}', b'{"n":-NaN}', b'{"n":-Infinit}',
    b'{"x":01}', b'{"x":1.}', b'{"x":nul}', b'{"x":[1,]}', b'{"x":[1 2]}', b'{"x":{"y"}}', b'{"x":[}', b'{"x":{]}', b'{"x":[1}}',
    b'{"s":"a\nb"}', b'{"x":"a\nb"}', b'{"s":"\\x"}', b'{"x":"\\x"}', b'{"x":"\\u12g4"}', b'{"s":"\\u12"}', b'{"s":"a}', b'{"s":"a\\"}',
    b'{"s":"\xff"}', b'{"x":"\xff"}', b'{"s":"\xed\xa0\x80"}', b'{"\xff":1}', b"\xef\xbb\xbf{\"n\":1}", b'{"n":1}\x00', b'{\'n\':1}',
    b'{"n":1}/*x*/', b'{"x":' + b"[" * 300 + b"]" * 300 + b"}", b'{"x":' + b"[" * 100_000, b'{"a":' * 40 + b"1" + b"}" * 40,
    b'{"n":' + b"9" * 5000 + b"}", b'{"s":"' + "é".encode()[:1] + b'"}', b'{"n":1}\xc3', b"\xa9",
    b'{"n":922337203685477580800}', b'{"n":-922337203685477580800}', b'{"n":18446744073709551616}', b'{"n":184467440737095516160}',
    b'{"n":12345678901234567890123}', b'{"n":[1]}', b'{"n":[1,]}', b'{"n":[,1]}', b'{"n":[1 2]}',
    b'{"n":[1', b'{"n":[', b'{"n":[1,', b'{"n":[1}', b'{"n":[[1]]}',
    b'{"n":[{"y":1}]}', b'{"n":["\\ud800"]}', b'{"n":[99999999999999999999]}', b'{"n":[1],"n":[2]}', b'{"n":[ ]}',
    b'{"id":[1]}', b'{"n":{"y":1}}', b'{"s":"\\u0000"}', b'{"s":"tab\\there"}',
]  # fmt: skip


def test_hostile_documents() -> None:
    """All together and each alone: what one of them does must not depend on its neighbours."""
    check(HOSTILE)
    for document in HOSTILE:
        check([document])


def test_one_document_may_have_several_lines() -> None:
    tree = AttributeTree(TESTED)
    pretty = json.dumps({"n": 5, "a": {"b": "x"}, "x": [1, 2]}, indent=2)
    assert from_json(pretty, None, tree).rows() == expected([pretty.encode()]).rows()
    lines = [line for line in pretty.splitlines() if line]
    broken = pretty[:-1]  # then its lines are no events either
    assert len(from_json(broken, None, tree).errors) == len(lines) - 1
    assert from_json(broken, None, tree).size == 0


def test_what_is_not_a_document_is_a_bad_event() -> None:
    batch = from_json([b'{"n": 1}', 5, '{"n": 2}', None], None, AttributeTree(TESTED))
    assert batch.size == 2
    assert [(error.position, error.reason) for error in batch.errors] == [
        (1, "a JSON document is bytes or str, not int"),
        (3, "a JSON document is bytes or str, not NoneType"),
    ]
    for wrong in (5, {"n": 1}):
        with pytest.raises(EventError, match="JSON events are bytes"):
            from_json(wrong)


def test_errors_say_where() -> None:
    batch = from_json(b'{"n": 1}\n{"n": }\n{"s": "\xff"}\n[]', None, AttributeTree(TESTED))
    assert [(error.position, error.attribute, error.reason) for error in batch.errors] == [
        (1, None, "not valid JSON at character 6: Expecting value"),
        (2, None, "not valid UTF-8 at byte 7"),
        (3, None, "an event is a dict, not list"),
    ]


def test_names_with_many_dots_and_many_attributes() -> None:
    deep = ".".join("abcdefghijklmnopqrstuvwxyz")
    nested: Any = 7
    for letter in reversed("abcdefghijklmnopqrstuvwxyz"):
        nested = {letter: nested}
    for tree in (AttributeTree([deep]), AttributeTree([f"k{number}" for number in range(3000)])):
        events = [nested, {f"k{number}": number for number in range(0, 3000, 7)}]
        assert from_json(list(map(json.dumps, events)), None, tree).rows() == from_dicts(events, None, tree).rows()


def test_attributes_that_come_later_are_read_too() -> None:
    tree = AttributeTree(["n"])
    assert list(from_json(b'{"n": 1, "s": 2}', None, tree).rows()[0]) == ["n"]
    tree.add("s")
    assert list(from_json(b'{"n": 1, "s": 2}', None, tree).rows()[0]) == ["n", "s"]


def test_an_index_gives_the_same_for_json_and_for_dictionaries() -> None:
    index = MatchIndex()
    index.add_many(
        ["low", "name", "path", "absent"],
        ["n < 5", "s like '%\\new%' or s = 'é'", "a.b = 'x' and n >= 2", "s is null"],
    )
    generator = np.random.default_rng(5)
    events = [
        {
            "n": int(generator.integers(0, 9)),
            "a": {"b": str(generator.choice(["x", "y"])), "other": [1, {"n": 3}]},
            **({"s": str(generator.choice(["C:\\new", "é", "line\nbreak"]))} if generator.random() < 0.7 else {}),
            "unused": "x" * int(generator.integers(0, 30)),
        }
        for _ in range(500)
    ]
    lines = "\n".join(map(json.dumps, events))
    wanted = index.match_many(events)
    for given_lines in (lines, lines.encode(), lines.splitlines()):
        found = index.match_json(given_lines)
        assert (found.offsets.tolist(), found.subscription_ids.tolist()) == (
            wanted.offsets.tolist(), wanted.subscription_ids.tolist(),
        )  # fmt: skip
    assert list(index.match_json(lines.splitlines()[0]).pairs()) == list(index.match_many(events[:1]).pairs())


def test_strict_reading_checks_what_nobody_tests() -> None:
    index = MatchIndex()
    index.add("s", "n = 1")
    document = b'{"n": 1, "other": 123456789012345678901234567890}'
    assert list(index.match_json(document).pairs()) == [(0, "s")]
    assert [error.attribute for error in index.match_json(document, strict=True).errors] == ["other"]
