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
from benchmarks.quick.comparison import Budget, compare, given, in_order
from benchmarks.quick.user_data import UserDataError, read_event_file, read_subscription_file
from ray_pubsub import MatchIndex

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
    assert len(read_event_file(written(tmp_path, f"events.{ending}", EVENTS))) == 30


def test_lines_and_intervals(tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text("a = 1\n\nb > 2\n")
    assert read_subscription_file(tmp_path / "rules.txt").texts == ["a = 1", "b > 2"]
    rows: list[dict[str, Any]] = [{"id": 1, "attribute": "a", "low": 0, "high": 5}] * 2
    assert len(read_subscription_file(written(tmp_path, "rules.csv", rows))) == 1


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", '{"id": 1}\nnothing\n', r"a\.jsonl, line 2: not JSON"),
        ("a.jsonl", "[1]\n", "line 1: expected an object, not list"),
        ("a.csv", "id,text\n1,x\n", "has the columns id, text; expected id and expression"),
        ("a.xls", "", "the ending '.xls' is not known"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserDataError, match=says):
        read_subscription_file(tmp_path / name)
    with pytest.raises(UserDataError, match="no such file"):
        read_event_file(tmp_path / "missing.parquet")


def test_engines_are_compared_until_the_time_is_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[dict[str, Any]] = [*RULES, {"id": "bad", "expression": "price <"}]
    data = given(written(tmp_path, "rules.jsonl", refused), written(tmp_path, "events.parquet", EVENTS))
    seconds = iter([0.0, 1.0, 2.0, 99.0, 99.0, 99.0])
    monkeypatch.setattr(comparison, "console", Console(width=130))  # writes to the output that is captured now
    compare(data, Budget(10.0, lambda: next(seconds)))
    out = capsys.readouterr().out
    assert "1 subscriptions were refused, the first: 'bad'" in out
    assert "auto (" in out and "dexin" in out and "no time left" in out
    assert "with the specification on a sample" in out and "on more shards" in out


def test_own_events_are_matched_once_in_their_order() -> None:
    """So that repetitions in them, and nothing else, are found in the cache."""
    index = MatchIndex()
    index.add_many([each["id"] for each in RULES], [each["expression"] for each in RULES])
    seconds, found = in_order(index, EVENTS)
    assert seconds > 0 and found == len(index.match_many(EVENTS)) > 0
