"""A user's own subscriptions and events, from CSV, TSV, JSON (lines or an array) or Parquet."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from ray_pubsub.errors import counted

__all__ = ["UserDataError", "read_event_file", "read_subscription_file"]


class UserDataError(SystemExit):
    """Said to the user in one line: which file, what is wrong, what is expected."""


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Texts with ids, or a table of intervals as `MatchIndex.add_predicates` takes it."""

    ids: list[Any]
    texts: list[str]
    intervals: Any | None = None
    remarks: list[str] = field(default_factory=list)
    """What the user should know of the file."""

    def __len__(self) -> int:
        return len(self.ids)


JSON = (".json", ".jsonl", ".ndjson")
NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
MOSTLY = 10
"""A column of texts of which fewer than one in this many are no numbers was meant to hold numbers."""
SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_subscription_file(path: Path) -> Subscriptions:
    """Columns id and expression; or id, attribute, low, high; or, in a file of plain lines (.txt, .sql), an expression a line."""
    if path.suffix in (".txt", ".sql"):
        texts = [line.strip() for line in _text(path).splitlines() if line.strip()]
        return Subscriptions(list(range(len(texts))), texts)
    remarks: list[str] = []
    rows: Any = _json_rows(path, remarks) if path.suffix in JSON else _table(path, remarks)
    names = {name for row in rows for name in row} if path.suffix in JSON else set(rows.column_names)
    if {"attribute", "low", "high", "id"} <= names:
        table = _intervals(path, rows)
        return Subscriptions(list(dict.fromkeys(table["id"].to_pylist())), [], table, remarks)
    if "expression" not in names:
        raise UserDataError(
            f"{path}: has the columns {', '.join(sorted(names))}; expected id and expression, or id, attribute, low and high"
        )
    given = _column(rows, "expression")
    texts = ["" if text is None else str(text) for text in given]
    ids = _column(rows, "id") if "id" in names else list(range(len(texts)))
    often = [id for id, count in Counter(ids).items() if count > 1]
    if often:
        remarks.append(
            f"{counted(len(often), 'id')} given more than once, the first {often[0]!r}: only the last row counts"
        )
    return Subscriptions(ids, texts, None, remarks)


def _column(rows: Any, name: str) -> list[Any]:
    return [row.get(name) for row in rows] if isinstance(rows, list) else rows[name].to_pylist()


def _intervals(path: Path, rows: Any) -> pa.Table:
    try:
        return pa.Table.from_pylist(rows) if isinstance(rows, list) else rows
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UserDataError(f"{path}: values of different kinds in one column ({error})") from error


def read_event_file(path: Path, remarks: list[str]) -> Any:
    """Returns a list of dicts (JSON) or an Arrow table (CSV, TSV, Parquet). What the user should know of the file is added to `remarks`."""
    if path.suffix in JSON:
        return _json_rows(path, remarks)
    table = _table(path, remarks)
    if path.suffix in SEPARATORS:
        for place, name in enumerate(table.column_names):
            numbers = _numbers(path, name, table[name], remarks)
            table = table.set_column(place, name, numbers)
    return table


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserDataError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise UserDataError(f"{path}, line {line}: not UTF-8; convert the file, for example by iconv") from error


def _json_rows(path: Path, remarks: list[str]) -> list[dict[str, Any]]:
    """One object a line, or one array of objects. Others are left out, with a remark, unless there is no object at all."""
    text, bad = _text(path), list[str]()
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise UserDataError(f"{path}: not JSON ({error})") from error
        numbered = [(f"element {number}", row) for number, row in enumerate(found, 1)]
    else:
        numbered = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    numbered.append((f"line {number}", json.loads(line)))
                except ValueError as error:
                    bad.append(f"line {number}: not JSON ({error}); expected one object a line, or an array of objects")
    bad += [
        f"{place}: expected an object, not {type(row).__name__}" for place, row in numbered if type(row) is not dict
    ]
    rows = [row for _, row in numbered if type(row) is dict]
    if bad and not rows:
        raise UserDataError(f"{path}, {bad[0]}")
    _remark_left_out(path, bad, remarks)
    return rows


def _table(path: Path, remarks: list[str]) -> Any:
    if not path.is_file():
        raise UserDataError(f"{path}: there is no such file")
    try:
        if path.suffix in (".parquet", ".pq"):
            return pyarrow.parquet.read_table(path)
        if path.suffix in SEPARATORS:
            return _separated(path, SEPARATORS[path.suffix], remarks)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserDataError(f"{path}: {error}") from error
    raise UserDataError(f"{path}: the ending {path.suffix!r} is not known; use .csv, .tsv, .jsonl, .json or .parquet")


def _separated(path: Path, separator: str, remarks: list[str]) -> pa.Table:
    """Reads a CSV or TSV file. Rows with more or fewer values than there are columns are left out, with a remark."""
    bad: list[str] = []

    def leave_out(row: Any) -> str:
        bad.append(f"row {row.number}: has {counted(row.actual_columns, 'value')}, not {row.expected_columns}")
        return "skip"

    table = pyarrow.csv.read_csv(
        path,
        pyarrow.csv.ReadOptions(use_threads=False),  # otherwise rows have no numbers
        pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=leave_out),
    )
    for name in table.column_names:
        if pa.types.is_binary(table[name].type):
            raise UserDataError(f"{path}, column {name}: not UTF-8; convert the file, for example by iconv")
    _remark_left_out(path, bad, remarks)
    return table


def _remark_left_out(path: Path, bad: list[str], remarks: list[str]) -> None:
    if bad:
        remarks.append(f"{path.name}: {counted(len(bad), 'row')} left out, the first: {bad[0]}")


def _numbers(path: Path, name: str, column: pa.ChunkedArray, remarks: list[str]) -> pa.ChunkedArray:
    """Returns the column. If nearly all of its texts are numbers, it was meant to hold numbers, and the others are left out."""
    if not pa.types.is_string(column.type):
        return column
    number = pc.match_substring_regex(column, NUMBER)
    others = column.filter(pc.and_(pc.invert(number), pc.greater(pc.utf8_length(column), 0)))
    if not 0 < len(others) * MOSTLY < pc.sum(number).as_py():
        return column
    values = counted(len(others), "value")
    remarks.append(f"{path.name}: {values} of column {name} left out, not a number, the first {others[0].as_py()!r}")
    return pc.cast(pc.if_else(number, column, None), pa.float64())
