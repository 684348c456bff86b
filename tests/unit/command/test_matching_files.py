"""Files in, matches out: `ray-pubsub match` and `explain` in one process, by typer's runner."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

from actors.command.entry import COMMANDS, app

SUBSCRIPTIONS = [("cheap", "price < 10"), ("phones", "model like 'iphone%' and price < 600"), (7, "stock is null")]
EVENTS: list[dict[str, Any]] = [
    {"price": 5, "stock": 1},
    {"model": "iphone5s", "price": 550},
    {"price": 900, "stock": 3},
]
MATCHES = {(0, "cheap"), (1, "phones"), (1, "7")}


def run(*arguments: Any, given: bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], input=given)


def table_file(folder: Path, kind: str) -> Path:
    path = folder / f"subscriptions.{kind}"
    ids, texts = [str(id) for id, _ in SUBSCRIPTIONS], [text for _, text in SUBSCRIPTIONS]
    if kind == "parquet":
        pyarrow.parquet.write_table(pa.table({"id": ids, "expression": texts}), path)
    elif kind == "csv":
        path.write_text("id,expression\n" + "".join(f'{id},"{text}"\n' for id, text in zip(ids, texts, strict=True)))
    else:
        rows = [{"id": id, "expression": text} for id, text in zip(ids, texts, strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def events_file(folder: Path, kind: str) -> Path:
    path = folder / f"events.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
        return path
    table = pa.Table.from_pylist(
        EVENTS, pa.schema([("price", pa.int64()), ("stock", pa.int64()), ("model", pa.string())])
    )
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.csv.write_csv(table, path)
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_every_kind_of_file(tmp_path: Path, kind: str) -> None:
    result = run("match", table_file(tmp_path, kind), events_file(tmp_path, kind))
    assert result.exit_code == 0, result.output
    found = {tuple(line.split("\t")) for line in result.stdout.splitlines()}
    assert found == {(str(event), id) for event, id in MATCHES}
    assert "3 matches of 3 events with 3 subscriptions" in result.stderr


def test_json_out_and_a_file_out(tmp_path: Path) -> None:
    subscriptions, events = table_file(tmp_path, "jsonl"), events_file(tmp_path, "jsonl")
    result = run("match", subscriptions, events, "--json")
    *rows, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert {(row["event_id"], id) for row in rows for id in row["subscription_ids"]} == MATCHES
    assert len(rows) == len(EVENTS) and result.stderr == ""
    assert (last["events"], last["matches"], last["subscriptions"]) == (3, 3, 3)
    assert (last["rejections"], last["errors"], last["warnings"]) == ([], [], [])
    for kind in ("jsonl", "csv", "parquet"):
        out = tmp_path / f"out.{kind}"
        assert run("match", subscriptions, events, "-o", out).exit_code == 0
        assert out.stat().st_size > 0
    written = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert {(row["event_id"], row["subscription_id"]) for row in written} == MATCHES


def test_what_is_bad_is_reported_and_the_rest_is_matched(tmp_path: Path) -> None:
    subscriptions, events = tmp_path / "s.csv", tmp_path / "e.jsonl"
    subscriptions.write_text("id,expression\na,x = 1 or y = 1\nb,x <\n")
    events.write_text('{"x": 1}\n{"x": \n{"x": 2, "y": 99999999999999999999}\n')
    result = run("match", subscriptions, events)
    assert result.exit_code == 1
    assert result.stdout == "0\ta\n"
    assert "#1 ('b'): unexpected end" in result.stderr and "event 1: " in result.stderr
    assert "event 2: left out y: " in result.stderr


@pytest.mark.parametrize("to_a_file", [False, True])
def test_json_has_the_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_a_file: bool) -> None:
    from actors.command import data_files

    monkeypatch.setattr(data_files.json_chunks, "__defaults__", (8,))  # positions are those in the file, not in a chunk
    subscriptions, events = tmp_path / "s.csv", tmp_path / "e.jsonl"
    subscriptions.write_text("id,expression\na,x = 1 or y = 1\nb,x <\n")
    events.write_text('{"x": 1}\n{"x": \n{"x": 2, "y": 99999999999999999999}\n')
    result = run("match", subscriptions, events, "--json", *(["-o", tmp_path / "out.csv"] if to_a_file else []))
    assert result.exit_code == 1 and result.stderr == ""
    last = json.loads(result.stdout.splitlines()[-1])
    assert (last["rejected"], last["bad_events"], last["warning_count"]) == (1, 1, 1)
    (rejection,), (error,), (warning,) = last["rejections"], last["errors"], last["warnings"]
    assert (rejection["position"], rejection["id"]) == (1, "b") and "unexpected end" in rejection["reason"]
    assert error["position"] == 1 and error["reason"]
    assert (warning["position"], warning["attribute"]) == (2, "y") and warning["reason"]
    told = json.loads(run("explain", '{"x": 1}', "a", "--subscriptions", subscriptions, "--json").stdout)
    assert told["truth"] is True and told["rejections"][0]["id"] == "b"


def test_data_and_tags_of_what_matches(tmp_path: Path) -> None:
    subscriptions, events = tmp_path / "s.jsonl", tmp_path / "e.jsonl"
    rows = [
        {"id": "a", "expression": "x = 1", "data": {"title": "é"}, "tags": ["t2", "t1"]},
        {"id": "b", "expression": "x >= 1"},
    ]
    subscriptions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    events.write_text('{"x": 1}\n{"x": 2}\n')
    shown = run("match", subscriptions, events, "--data")
    assert shown.stdout == '0\ta\t{"title": "é"}\t["t1", "t2"]\n0\tb\t\t\n1\tb\t\t\n'
    first, second, _ = map(json.loads, run("match", subscriptions, events, "--data", "--json").stdout.splitlines())
    assert (first["subscription_ids"], first["data"], first["tags"]) == (
        ["a", "b"],
        [{"title": "é"}, None],
        [["t1", "t2"], []],
    )
    assert (second["data"], second["tags"]) == ([None], [[]])
    assert run("match", subscriptions, events, "--data", "-o", tmp_path / "out.parquet").exit_code == 0
    written = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert written[0] == {"event_id": 0, "subscription_id": "a", "data": '{"title": "é"}', "tags": "t1,t2"}
    assert (written[1]["data"], written[1]["tags"]) == (None, None)


def test_case_is_ignored_on_request(tmp_path: Path) -> None:
    subscriptions, events = tmp_path / "s.csv", tmp_path / "e.jsonl"
    subscriptions.write_text("id,expression\na,model like 'IPHONE%'\n")
    events.write_text('{"model": "iphone5s"}\n')
    assert run("match", subscriptions, events).stdout == ""
    assert run("match", subscriptions, events, "--ignore-case").stdout == "0\ta\n"
    explained = ("explain", '{"model": "iPhone"}', "a", "--subscriptions", subscriptions)
    assert run(*explained).stdout.startswith("✗") and run(*explained, "--ignore-case").stdout.startswith("✓")
    refused = run("explain", '{"model": "iPhone"}', "--ignore-case")
    assert refused.exit_code == 2 and "is for --subscriptions" in refused.stderr


def test_events_of_several_chunks_are_numbered_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.command import data_files

    monkeypatch.setattr(data_files.json_chunks, "__defaults__", (64,))
    subscriptions, events = tmp_path / "s.csv", tmp_path / "e.jsonl"
    subscriptions.write_text("id,expression\na,x >= 0\n")
    events.write_text("".join(f'{{"x": {number}, "pad": "{"." * (number % 50)}"}}\n' for number in range(100)))
    assert run("match", subscriptions, events).stdout == "".join(f"{number}\ta\n" for number in range(100))


@pytest.mark.parametrize("text", ['[{"x": 1}, {"x": 2}]', '[\n  {"x": 1},\n  {"x": 2}\n]\n'])
def test_a_list_is_no_lines(tmp_path: Path, text: str) -> None:
    subscriptions, events = table_file(tmp_path, "csv"), tmp_path / "events.json"
    events.write_text(text)
    result = run("match", subscriptions, events)
    assert result.exit_code == 1 and "events.json is a JSON list; write an event in each line" in result.stderr


def test_events_without_the_attribute_that_names_them(tmp_path: Path) -> None:
    result = run("match", table_file(tmp_path, "csv"), events_file(tmp_path, "jsonl"), "--event-id", "sku")
    assert result.exit_code == 1 and "event 0: has no 'sku', its id" in result.stderr


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize(
    ("cells", "told"), [("5,,call us,7", True), ("5,,6,7", False), ("5,a,b,c", False), ("a,b,c,d", False)]
)
def test_texts_among_the_numbers_of_a_column(tmp_path: Path, cells: str, told: bool) -> None:
    events = tmp_path / "events.csv"
    events.write_text("price,shop\n" + "".join(f"{cell},a\n" for cell in cells.split(",")))
    result = run("match", table_file(tmp_path, "csv"), events)
    assert result.exit_code == 0
    assert (
        "'price' is 'call us' in event 2, so all values of this column are read as texts, its 2 numbers too"
        in result.stderr
    ) == told


def test_an_explanation(tmp_path: Path) -> None:
    subscriptions = table_file(tmp_path, "csv")
    event = '{"model": "iphone5s", "price": 600}'
    result = run("explain", event, "phones", "--subscriptions", subscriptions)
    assert result.stdout.splitlines() == [
        "✗ all of",
        "  ✓ model like 'iphone%'   (is 'iphone5s')",
        "  ✗ price < 600   (is 600)",
    ]
    told = json.loads(run("explain", event, "phones", "--subscriptions", subscriptions, "--json").stdout)
    assert [part["truth"] for part in told["parts"]] == [True, False]
    (tmp_path / "event.json").write_text(event)
    assert run("explain", f"@{tmp_path / 'event.json'}", "--subscriptions", subscriptions).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("match", "missing.csv", "-"), 2, "missing.csv cannot be read: No such file or directory"),
        (("match", "missing.csv", "missing.jsonl"), 2, "missing.jsonl cannot be read: No such file or directory"),
        (("match", "-", "-"), 2, "cannot both come from stdin"),
        (("match", "missing.csv", "-", "-o", "out.txt"), 2, "out.txt must end in"),
        (("match", "missing.csv", "-", "-o", "nowhere/out.csv"), 2, "nowhere/out.csv cannot be written: its folder"),
        (("publish", "missing.jsonl"), 2, "missing.jsonl cannot be read: No such file or directory"),
        (("load", "missing.csv"), 2, "missing.csv cannot be read: No such file or directory"),
        (("load", "missing.csv", "--rejected", "nowhere/r.jsonl"), 2, "its folder does not exist"),
        (("export", "nowhere/all.csv"), 2, "its folder does not exist"),
        (("match", "table.xlsx", "-"), 2, "must end in .csv, .jsonl or .parquet"),
        (("explain", "{price: 5}", "--subscriptions", "x.csv"), 2, "x.csv cannot be read"),
        (("explain", '{"x": 1}', "a", "--subscriptions", "x.csv", "-s", "other"), 2, "leave out the server"),
        (("statuss",), 2, "Did you mean 'status'"),
        (("match", "a.csv"), 2, "Missing argument"),
    ],
)
def test_mistakes_have_exit_codes_and_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert words in result.output


@pytest.mark.parametrize(
    "name", [command.__name__.replace("_", "-") for panel in COMMANDS.values() for command in panel]
)
def test_help_is_written_as_the_documents_write_commands(name: str) -> None:
    """Arguments in capitals, those that may be left out in one pair of brackets; a flag that switches on has no second name."""
    shown = run(name, "--help").output
    (usage,) = (line.split() for line in shown.splitlines() if "Usage: " in line)
    for word in usage[usage.index("[OPTIONS]") + 1 :]:
        assert re.fullmatch(r"\{[A-Z]+\}|\[[A-Z]+\](\.\.\.)?", word), word
    assert set(re.findall(r"--no-\w+", shown)) <= {"--no-kill"}


def test_an_error_is_json_where_json_is_wanted(tmp_path: Path) -> None:
    result = run("match", tmp_path / "missing.csv", "-", "--json")
    assert json.loads(result.stderr)["error"] == "SettingError"
    for arguments, words in (
        (("match", "a.csv", "--json"), "Missing argument"),
        (("match", "a.csv", "b.csv", "--jsn", "--json"), "No such option: --jsn"),
        (("mach", "a.csv", "--json"), "No such command 'mach'"),
        (("bench", "--events", "1", "--json"), "greater than or equal to 20"),
    ):
        result = run(*arguments)
        told = json.loads(result.stderr)
        assert (result.exit_code, told["error"]) == (2, "UsageError") and words in told["message"], result.stderr


def test_a_file_without_expressions_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("id,query\na,x = 1\n")
    result = run("match", path, "-")
    assert result.exit_code == 1 and "has the columns id and expression, not ['id', 'query']" in result.output


def test_whose_subscriptions_they_are_is_asked_before_a_server(tmp_path: Path) -> None:
    result = run("load", table_file(tmp_path, "csv"))
    assert result.exit_code == 2 and "--subscriber says whose" in result.output


def test_a_benchmark_checks_itself() -> None:
    told = json.loads(run("bench", "--subscriptions", 500, "--events", 20, "--json").stdout)
    assert told["equals_reference"] is True and told["batch_ms_per_event"] > 0


def test_the_version() -> None:
    import ray_pubsub

    assert run("--version").stdout.strip() == ray_pubsub.__version__


@pytest.mark.parametrize(
    "name", [command.__name__.replace("_", "-") for panel in COMMANDS.values() for command in panel]
)
def test_every_command_has_help_and_json(name: str) -> None:
    shown = run(name, "--help")
    assert shown.exit_code == 0 and "--json" in shown.output


def test_commands_are_completed() -> None:
    """As bash asks, with what it has of the line."""
    asked = {"_RAY_PUBSUB_COMPLETE": "complete_bash", "COMP_WORDS": "ray-pubsub st", "COMP_CWORD": "1"}
    completed = CliRunner().invoke(app, [], prog_name="ray-pubsub", env=asked)
    assert completed.stdout.split() == ["start", "status", "stop"]
    asked |= {"COMP_WORDS": "ray-pubsub match --ig", "COMP_CWORD": "2"}
    assert CliRunner().invoke(app, [], prog_name="ray-pubsub", env=asked).stdout.split() == ["--ignore-case"]


def test_the_http_door_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.command import lifecycle

    monkeypatch.setattr(lifecycle, "find_spec", lambda name: None)
    result = run("serve")
    assert result.exit_code == 4 and "pip install 'ray-pubsub[http]'" in result.output


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_ids_that_look_like_dates_are_texts(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"subscriptions.{kind}"
    rows = [{"id": "2024-01-01", "expression": "price < 10"}, {"id": "2024-01-02", "expression": "price > 10"}]
    if kind == "csv":
        path.write_text("id,expression\n" + "".join(f"{row['id']},{row['expression']}\n" for row in rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run("match", path, events_file(tmp_path, "jsonl"))
    assert result.stdout.splitlines() == ["0\t2024-01-01", "1\t2024-01-02", "2\t2024-01-02"], result.output


def test_strict_makes_events_with_unusable_values_bad(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"price": 5, "big": 1180591620717411303424}\n{"price": 6}\n')
    subscriptions = table_file(tmp_path, "csv")
    assert {line.split("\t")[0] for line in run("match", subscriptions, events).stdout.splitlines()} == {"0", "1"}
    result = run("match", subscriptions, events, "--strict")
    assert {line.split("\t")[0] for line in result.stdout.splitlines()} == {"1"}
    assert result.exit_code == 1
