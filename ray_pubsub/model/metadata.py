"""The data and tags of subscriptions, for people and programs: a small JSON value and some names. Matching never looks at them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ray_pubsub.errors import MetadataError, Rejection, SettingError
from ray_pubsub.model.as_list import as_list, is_table

__all__ = [
    "MOST_BYTES", "MOST_TAGS", "Described", "Metadata", "check_tag", "data_of", "described", "distinct_data", "given_columns",
    "metadata_columns", "metadata_of", "tags_of",
]  # fmt: skip

MOST_BYTES = 4096
"""The most bytes of `data`, written as JSON."""
MOST_DEPTH = 32
"""The most lists and objects within each other in `data`, as in events: what reads the data of many subscriptions must not fail by one."""
MOST_TAGS, LONGEST_TAG = 32, 200

Lookup = Callable[[Sequence[str | int]], "list[Metadata | None]"]
"""Returns the metadata of subscriptions by their ids; None for one that has none."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The data of one subscription as JSON, and its tags in ascending order."""

    text: str | None
    tags: tuple[str, ...] = ()

    @property
    def data(self) -> Any:
        """The JSON value, a new object each time, so that callers cannot change each other's."""
        return None if self.text is None else json.loads(self.text)


def metadata_of(data: Any, tags: Any = ()) -> Metadata | None:
    """Checks data and tags. Returns None if there is nothing to store. Raises MetadataError.

    >>> metadata_of({"title": "cheap"}, ["shop", "eu"])
    Metadata(text='{"title":"cheap"}', tags=('eu', 'shop'))
    """
    text, checked = None if data is None else _json(data), _tags(tags)
    return None if text is None and not checked else Metadata(text, checked)


def data_of(found: Metadata | None) -> Any:
    return None if found is None else found.data


def tags_of(found: Metadata | None) -> tuple[str, ...]:
    return () if found is None else found.tags


def check_tag(tag: Any) -> str:
    """Checks one tag. Raises MetadataError."""
    if not isinstance(tag, str):
        raise MetadataError("tags", f"a tag is a str, not {type(tag).__name__}")
    if not 0 < len(tag) <= LONGEST_TAG or not tag.isprintable() or "," in tag:
        wanted = f"1 to {LONGEST_TAG} printable characters without a comma"
        raise MetadataError("tags", f"a tag is {wanted}, not {tag[:LONGEST_TAG]!r}")
    return tag


def _tags(given: Any) -> tuple[str, ...]:
    if given is None or given == ():
        return ()
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise MetadataError("tags", f"must be a list of texts, not {given!r}")
    tags = tuple(sorted(set(map(check_tag, given))))
    if len(tags) > MOST_TAGS:
        raise MetadataError("tags", f"{len(tags)} tags; at most {MOST_TAGS} are kept")
    return tags


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except RecursionError:
        raise MetadataError("data", "is nested too deeply") from None
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is a ValueError
        raise MetadataError("data", f"must be a value of JSON: {error}") from None
    if size > MOST_BYTES:
        hint = "keep a key to it here, and the rest elsewhere"
        raise MetadataError("data", f"{size:,} bytes of JSON; at most {MOST_BYTES:,} are kept: {hint}")
    _check_parts(value, 0)
    return text


def _check_parts(value: Any, depth: int) -> None:
    """Checks how deep the value is nested, and that the names in JSON objects are texts: Python would write other keys as texts, and they
    would come back as texts."""
    if not isinstance(value, Mapping | list | tuple):
        return
    if depth == MOST_DEPTH:
        raise MetadataError("data", f"is nested more than {MOST_DEPTH} deep")
    if isinstance(value, Mapping):
        for name, part in value.items():
            if not isinstance(name, str):
                raise MetadataError("data", f"the names in a JSON object are texts, not {name!r}")
            _check_parts(part, depth + 1)
    else:
        for part in value:
            _check_parts(part, depth + 1)


# ------------------------------------------------------------------------------------------------------------------ of many


class Described(NamedTuple):
    """The metadata of several subscriptions, and the bad ones among them, whose entries are None."""

    metadata: list[Metadata | None]
    rejections: list[Rejection]


def described(ids: Any, table: Any, data: Any, tags: Any) -> Described | None:
    """Checks the metadata that was given for `ids`. Returns None if nothing was given. The arguments are those of `given_columns`."""
    values, lists = given_columns(len(ids), table, data, tags)
    if values is None and lists is None:
        return None
    found: list[Metadata | None] = []
    rejections = []
    none: list[Any] = [None] * len(ids)
    for position, (identity, value, own) in enumerate(zip(ids, values or none, lists or none, strict=True)):
        try:
            found.append(metadata_of(value, own))
        except MetadataError as error:
            found.append(None)
            rejections.append(Rejection(position, identity, error))
    return Described(found, rejections) if rejections or any(each is not None for each in found) else None


def given_columns(count: int, table: Any, data: Any, tags: Any) -> tuple[list[Any] | None, list[Any] | None]:
    """Returns a value and a list of tags for each of `count` subscriptions, unchecked: given once for all, or one by one, or as columns
    of `table`, which a caller gave in place of the ids. Returns None for what was not given."""
    if is_table(table):
        names = list(table.columns) if hasattr(table, "to_dict") else table.column_names
        names = [str(name) for name in names]
        data = _cells(table, "data", _read_json) if data is None and "data" in names else data
        tags = _cells(table, "tags", _split) if tags is None and "tags" in names else tags
    return (
        None if data is None else _each("data", data, count, Mapping),
        None if tags is None else _each_tags(tags, count),
    )


def distinct_data(lookup: Lookup | None, ids: Any) -> dict[Any, Metadata | None]:
    """Returns the metadata of each distinct id. Raises SettingError if there is no `lookup`."""
    if lookup is None:
        raise SettingError("data", "is asked for where events were matched; this result came from another process")
    distinct = list(dict.fromkeys(ids))
    return dict(zip(distinct, lookup(distinct), strict=True))


def metadata_columns(known: Mapping[Any, Metadata | None], ids: Iterable[Any]) -> dict[str, Any]:
    """Returns Arrow columns for these ids: `data`, JSON as text and null where there is none, and `tags`, lists of texts."""
    import pyarrow as pa

    place = {id: number for number, id in enumerate(known)}
    found = list(known.values())
    rows = pa.array([place[id] for id in ids], pa.int64())
    data = pa.array([each and each.text for each in found], pa.string())
    return {"data": data.take(rows), "tags": pa.array(map(tags_of, found), pa.list_(pa.string())).take(rows)}


def _each(name: str, given: Any, count: int, one: type) -> list[Any]:
    """Returns a value for each subscription; a single value is repeated."""
    if isinstance(given, one):
        return [given] * count
    values = as_list(name, given)
    if len(values) != count:
        raise SettingError(name, f"must be one for all, or one for each: {len(values):,} for {count:,} subscriptions")
    return values


def _each_tags(given: Any, count: int) -> list[Any]:
    if isinstance(given, str):
        raise SettingError("tags", f"must be a list of texts, not {given!r}")
    listed = as_list("tags", given)
    if all(isinstance(tag, str) for tag in listed):
        return [listed] * count
    return _each("tags", listed, count, str)


def _cells(table: Any, name: str, read: Callable[[Any], Any]) -> list[Any]:
    column = table[name] if hasattr(table, "to_dict") else table.column(name)
    return [read(cell) for cell in as_list(name, column)]


def _read_json(cell: Any) -> Any:
    """Returns the value of a cell. A column of a table has values of one type, so a text is parsed as JSON."""
    if cell is None or cell != cell:  # pandas' NaN is an empty cell
        return None
    if not isinstance(cell, str):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _split(cell: Any) -> Any:
    if cell is None or isinstance(cell, float):
        return ()
    return [tag for tag in map(str.strip, cell.split(",")) if tag] if isinstance(cell, str) else list(cell)
