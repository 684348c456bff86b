"""`python -m benchmarks quick` reads a user's files, says what is wrong with them, and compares all engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from rich.console import Console

from benchmarks.quick import comparison
from benchmarks.quick.comparison import Budget, attributes_of, check, compare, filled, given, in_order
from benchmarks.quick.user_data import UserDataError, read_event_file, read_subscription_file
from ray_pubsub import MatchIndex
from ray_pubsub.model.events import read_events

RULES: list[dict[str, Any]] = [
    {"id": f"r{number}", "expression": f"price < {number} and city in ('Bonn', 'Riga')"} for number in range(40)
]
EVENTS: list[dict[str, Any]] = [{"price": number, "city": "Riga" if number % 2 else "Oslo"} for number in range(30)]


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / name
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(pa.Table.from_pylist(rows), path)
    else:
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_files(tmp_path: Path, ending: str) -> None:
    rules = read_subscription_file(written(tmp_path, f"rules.{ending}", RULES))
    assert (rules.ids[3], rules.texts[3]) == ("r3", RULES[3]["expression"])
    assert len(read_event_file(written(tmp_path, f"events.{ending}", EVENTS), [])) == 30


def test_lines_and_intervals(tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text("a = 1\n\nb > 2\n")
    assert read_subscription_file(tmp_path / "rules.txt").texts == ["a = 1", "b > 2"]
    rows: list[dict[str, Any]] = [{"id": 1, "attribute": "a", "low": 0, "high": 5}] * 2
    assert len(read_subscription_file(written(tmp_path, "rules.csv", rows))) == 1


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", "nothing\n{\n", r"a\.jsonl, line 1: not JSON"),
        ("a.jsonl", "\n7\n", "line 2: expected an object, not int"),
        ("a.json", "[1]\n", "element 1: expected an object, not int"),
        ("a.json", '[{"id": 1},', r"a\.json: not JSON"),
        ("a.csv", "id,text\n1,x\n", "has the columns id, text; expected id and expression"),
        ("a.xls", "", "the ending '.xls' is not known"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserDataError, match=says):
        read_subscription_file(tmp_path / name)
    with pytest.raises(UserDataError, match="no such file"):
        read_event_file(tmp_path / "missing.parquet", [])
    (tmp_path / "latin.jsonl").write_bytes('{"a": 1}\n{"city": "Köln"}\n'.encode("latin-1"))
    with pytest.raises(UserDataError, match=r"latin\.jsonl, line 2: not UTF-8"):
        read_event_file(tmp_path / "latin.jsonl", [])
    (tmp_path / "latin.csv").write_bytes("id,city\n1,Köln\n".encode("latin-1"))
    with pytest.raises(UserDataError, match=r"latin\.csv, column city: not UTF-8"):
        read_event_file(tmp_path / "latin.csv", [])


def test_a_bad_row_harms_only_itself(tmp_path: Path) -> None:
    (tmp_path / "rules.jsonl").write_text(
        '{"id": 1, "expression": "a = 1"}\n{"id": \n7\n{"id": 2, "expression": "a = 2"}\n'
    )
    rules = read_subscription_file(tmp_path / "rules.jsonl")
    assert (rules.ids, rules.texts) == ([1, 2], ["a = 1", "a = 2"])
    (remark,) = rules.remarks
    assert remark.startswith("rules.jsonl: 2 rows left out, the first: line 2: not JSON")
    numbers = "".join(f"{number},x\n" for number in range(20))
    (tmp_path / "events.csv").write_text(f"price,city\n1\n{numbers}many,x\n,x\n2,3,4\n")
    remarks: list[str] = []
    assert len(read_event_file(tmp_path / "events.csv", remarks)) == 22
    assert remarks == [
        "events.csv: 2 rows left out, the first: row 2: has 1 value, not 2",
        "events.csv: 1 value of column price left out, not a number, the first 'many'",
    ]


def test_rules_of_different_kinds_are_refused_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "rules.jsonl").write_text(
        '{"id": "r", "expression": "a = 1"}\n{"id": 2, "expression": 5}\n{"expression": "a = 2"}\n'
    )
    index, _, refused = filled("auto", read_subscription_file(tmp_path / "rules.jsonl"))
    assert len(index) == 1 and len(refused) == 2
    (tmp_path / "rules.csv").write_text("id,attribute,low,high\n1,a,0,1\n2,a,nothing,1\n")
    with pytest.raises(UserDataError, match="low and high must be of one kind"):
        filled("auto", read_subscription_file(tmp_path / "rules.csv"))
    (tmp_path / "rules.json").write_text('[{"id": 1, "attribute": "a", "low": 0, "high": "x"}, {"id": 1, "high": 2}]')
    with pytest.raises(UserDataError, match="values of different kinds in one column"):
        read_subscription_file(tmp_path / "rules.json")


def test_an_array_and_tabs(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(json.dumps(RULES, indent=1))
    (tmp_path / "rules.tsv").write_text("id\texpression\nr0\tprice < 0 and city in ('Bonn', 'Riga')\n")
    array, tabs = (read_subscription_file(tmp_path / name) for name in ("rules.json", "rules.tsv"))
    assert array.texts == [each["expression"] for each in RULES] and array.remarks == []
    assert (tabs.ids, tabs.texts) == (["r0"], array.texts[:1])


def test_engines_are_compared_until_the_time_is_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[dict[str, Any]] = [
        *RULES,
        {"id": "bad", "expression": "price <"},
        {"id": "r3", "expression": "price > 3"},
    ]
    events = [*EVENTS, {"price": 2**70}, {"price": "x", "city": None}, {"seller": {"city": "Riga"}}]
    data = given(written(tmp_path, "rules.jsonl", rows), written(tmp_path, "events.jsonl", events))
    seconds = iter([0.0, 1.0, 2.0, 99.0, 99.0, 99.0])
    monkeypatch.setattr(comparison, "console", Console(width=160))  # writes to the output that is captured now
    compare(data, Budget(10.0, lambda: next(seconds)))
    out = capsys.readouterr().out
    assert "1 id given more than once, the first 'r3': only the last row counts" in out
    assert "1 subscription refused, the first: 'bad'" in out
    assert "1 value left out of its event, the first: event 30: attribute 'price': the integer" in out
    assert "auto (scanned)" in out and "dexin" in out and "no time left" in out
    assert "So few subscriptions are scanned" in out
    assert "Matches were compared with the specification on a sample" in out and "on more shards" in out
    compare(data, Budget(0.0))
    assert "There was no time left for other engines" in capsys.readouterr().out
    compare(data, Budget(600.0))
    assert "Matches agree between all engines, and with the specification" in capsys.readouterr().out


def test_intervals_are_compared_with_the_specification(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": number, "attribute": "price", "low": 0, "high": number} for number in range(50)
    ]
    data = given(written(tmp_path, "rules.csv", rows), written(tmp_path, "events.csv", EVENTS))
    index, _, refused = filled("auto", data.subscriptions)
    assert len(index) == 50 and refused == []
    check(index, data.events)
    index.add(49, "price < 0")
    other, _, _ = filled("auto", data.subscriptions)
    other.expression = index.expression  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="differs from the specification"):
        check(other, data.events)


@pytest.mark.parametrize("events", [EVENTS[:1], EVENTS[:2], pa.Table.from_pylist(EVENTS[:3])])
def test_a_few_events_are_enough(events: Any) -> None:
    index = MatchIndex()
    index.add("r", "price >= 0")
    seconds, found, _ = in_order(index, events)
    assert seconds > 0 and found == len(events)


def test_nested_attributes_have_their_dotted_names_on_shards() -> None:
    events = [{"price": 1, "seller": {"city": "Riga"}}, {"price": None, "seller": {}}]
    assert attributes_of(read_events(events)) == [["price", "seller.city"], []]


def test_own_events_are_matched_once_in_their_order() -> None:
    """So that repetitions in them, and nothing else, are found in the cache."""
    index = MatchIndex()
    index.add_many([each["id"] for each in RULES], [each["expression"] for each in RULES])
    seconds, found, remarks = in_order(index, EVENTS)
    assert seconds > 0 and found == len(index.match_many(EVENTS)) > 0 and remarks == []
