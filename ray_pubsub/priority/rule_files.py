"""Saves rules: the settings, and every rule's id, level and expression or intervals, in the order of adding. Instances are not saved,
because they can be computed from the rules."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ray_pubsub.errors import IndexFileError, RayPubSubError, SettingError
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.index.storage.sealed_file import FileKind, read_whole, seal, unseal, write_whole
from ray_pubsub.priority.confirmation import Source
from ray_pubsub.priority.discretizer import Discretizer, described, restored
from ray_pubsub.settings import Limits

if TYPE_CHECKING:
    from ray_pubsub.priority.rules import PriorityRules

__all__ = ["dump", "load", "save", "unpickled"]

RULES = FileKind(b"ray-pubrules", 1, "a file of priority rules")


def dump(rules: PriorityRules) -> bytes:
    """Returns the content of the file."""
    header = {
        "levels": list(rules.levels),
        "confirm": rules.confirm,
        "false_positive_rate": rules.false_positive_rate,
        "signatures": rules.signatures,
        "vectors": rules.vectors,
        "cache": rules.cache_entries,
        "limits": asdict(rules.limits),
        "discretizers": {name: described(each) for name, each in rules.discretizers.items()},
    }
    return seal(RULES, header, _tables(rules))


def save(path: str | os.PathLike[str], rules: PriorityRules) -> None:
    write_whole(path, dump(rules))


def load(path: str | os.PathLike[str], discretizers: Mapping[str, Discretizer]) -> PriorityRules:
    return _restored(os.fspath(path), read_whole(path), discretizers)


def unpickled(content: bytes, discretizers: Mapping[str, Discretizer]) -> PriorityRules:
    return _restored("pickle", content, discretizers)


def _restored(name: str, content: bytes, discretizers: Mapping[str, Discretizer]) -> PriorityRules:
    header, tables = unseal(RULES, name, content)
    try:
        return _of_content(header, tables, discretizers)
    except RayPubSubError:
        raise
    # The checksums match, so the file was not damaged but written by other software.
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
        pa.ArrowException,
    ) as error:
        raise IndexFileError(name, f"is damaged: {type(error).__name__}: {error}") from error


def _of_content(
    header: Mapping[str, Any], tables: Sequence[Any], discretizers: Mapping[str, Discretizer]
) -> PriorityRules:
    from ray_pubsub.priority.rules import VECTORS, PriorityRules

    used: dict[str, Discretizer] = {}
    for attribute, description in header["discretizers"].items():
        found = discretizers.get(attribute) or restored(description)
        if found is None:
            raise SettingError(
                "discretizers", f"{attribute!r} has a function, which is not in the file; give it to `load`"
            )
        used[attribute] = found
    rules = PriorityRules(
        header["levels"],
        confirm=header["confirm"],
        false_positive_rate=header["false_positive_rate"],
        signatures=header["signatures"],
        vectors=header.get("vectors", VECTORS),  # older files do not say
        cache=header["cache"],
        limits=Limits(**header["limits"]),
        discretizers={**used, **discretizers},
    )
    for table in tables:
        if "text" in table.column_names:
            ids = _ids(table)
            levels = [rules.levels[level] for level in table.column("level").to_pylist()]
            rules.add_many(ids, levels, table.column("text").to_pylist(), atomic=True)
        else:
            rules.add_predicates(table, atomic=True)
    return rules


def _tables(rules: PriorityRules) -> list[Any]:
    """Returns a table for each run of rules that came as expressions, or in one table of intervals."""
    book = rules._book
    items = [(identity, number, book.source(number)) for identity, number in book.number_of.items()]
    found = []
    for _, group in groupby(items, key=_origin):
        run = list(group)
        source = run[0][2]
        numbers = np.array([number for _, number, _ in run], dtype=np.int64)
        if isinstance(source, PredicateTable):
            found.append(_intervals(rules, source, numbers, [identity for identity, _, _ in run]))
            continue
        ids = [identity for identity, _, _ in run]
        found.append(
            pa.table(
                {
                    "number": pa.array([each if isinstance(each, int) else None for each in ids], pa.int64()),
                    "name": pa.array([each if isinstance(each, str) else None for each in ids], pa.string()),
                    "level": pa.array(book.level_of[numbers]),
                    "text": pa.array([each.text_at(number) for _, number, each in run], pa.large_string()),
                }
            )
        )
    return found


def _origin(item: tuple[str | int, int, Source]) -> int | None:
    return id(item[2]) if isinstance(item[2], PredicateTable) else None


def _intervals(rules: PriorityRules, source: PredicateTable, numbers: Any, ids: list[str | int]) -> Any:
    order = np.argsort(numbers)
    numbers = numbers[order]
    table = source.arrow(numbers)
    assert table is not None  # else its rules were written out when they were read
    owner = np.searchsorted(numbers, table.column("id").to_numpy())
    level = pa.DictionaryArray.from_arrays(
        pa.array(rules._book.level_of[numbers][owner].astype(np.int32)), pa.array(rules.levels)
    )
    identity = pa.array([ids[place] for place in order.tolist()]).take(pa.array(owner))
    return table.set_column(0, "id", identity).append_column("level", level)


def _ids(table: Any) -> list[str | int]:
    pairs = zip(table.column("number").to_pylist(), table.column("name").to_pylist(), strict=True)
    return [name if number is None else number for number, name in pairs]
