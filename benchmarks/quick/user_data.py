"""A user's own subscriptions and events, from CSV, TSV, JSON (lines or an array) or Parquet."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
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
SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_subscription_file(path: Path) -> Subscriptions:
    """Columns id and expression; or id, attribute, low, high; or, in a file of plain lines (.txt, .sql), an expression a line."""
    if path.suffix in (".txt", ".sql"):
        texts = [line.strip() for line in _text(path).splitlines() if line.strip()]
        return Subscriptions(list(range(len(texts))), texts)
    table = pa.Table.from_pylist(_json_rows(path)) if path.suffix in JSON else _table(path)
    names = set(table.column_names)
    if {"attribute", "low", "high", "id"} <= names:
        return Subscriptions(list(dict.fromkeys(table["id"].to_pylist())), [], table)
    if "expression" not in names:
        raise UserDataError(
            f"{path}: has the columns {', '.join(sorted(names))}; expected id and expression, or id, attribute, low and high"
        )
    rows = table["expression"].to_pylist()
    texts = ["" if text is None else str(text) for text in rows]
    ids = table["id"].to_pylist() if "id" in names else list(range(len(texts)))
    often = [id for id, count in Counter(ids).items() if count > 1]
    repeated = (
        f"{counted(len(often), 'id')} given more than once, the first {often[0]!r}: only the last row counts"
        if often
        else ""
    )
    remarks = [repeated] if repeated else []
    return Subscriptions(ids, texts, None, remarks)


def read_event_file(path: Path) -> Any:
    """Returns a list of dicts (JSON) or an Arrow table (CSV, TSV, Parquet)."""
    return _json_rows(path) if path.suffix in JSON else _table(path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserDataError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise UserDataError(f"{path}, line {line}: not UTF-8; convert the file, for example by iconv") from error


def _json_rows(path: Path) -> list[dict[str, Any]]:
    """One object a line, or one array of objects."""
    text = _text(path)
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
                    expected = "expected one object a line, or an array of objects"
                    raise UserDataError(f"{path}, line {number}: not JSON ({error}); {expected}") from error
    for place, row in numbered:
        if not isinstance(row, dict):
            raise UserDataError(f"{path}, {place}: expected an object, not {type(row).__name__}")
    return [row for _, row in numbered]


def _table(path: Path) -> Any:
    if not path.is_file():
        raise UserDataError(f"{path}: there is no such file")
    try:
        if path.suffix in (".parquet", ".pq"):
            return pyarrow.parquet.read_table(path)
        if path.suffix in SEPARATORS:
            parsing = pyarrow.csv.ParseOptions(delimiter=SEPARATORS[path.suffix])
            return pyarrow.csv.read_csv(path, parse_options=parsing)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserDataError(f"{path}: {error}") from error
    raise UserDataError(f"{path}: the ending {path.suffix!r} is not known; use .csv, .tsv, .jsonl, .json or .parquet")
