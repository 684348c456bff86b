"""Generated inputs: texts near the language, events of strange values, JSON near JSON, Arrow of many types, bytes that were changed."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import random
from contextlib import suppress
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

__all__ = ["changed_bytes", "event", "json_line", "strange_field", "table", "text"]

WORDS = [
    *[
        "and",
        "or",
        "not",
        "in",
        "between",
        "like",
        "escape",
        "regexp",
        "rlike",
        "is",
        "null",
        "true",
        "false",
        "(",
        ")",
    ],
    *[
        ",",
        "=",
        "!=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "timestamp",
        "date",
        "double",
        "-",
        "+",
        ".",
        "*",
        "/",
        "%",
        ";",
        "--",
        "'",
    ],
    *[
        "x",
        "y",
        "a.b",
        "`q r`",
        '"w"',
        "s",
        "t",
        "flag",
        "AND",
        "Not",
        "nul",
        "\ud800",
        "\0",
        "\u00e9",
        "\n",
        "é",
        "if",
    ],
]
CONSTANTS = [
    *["1", "0", "-1", "5.5", "1e300", "-0.0", "9223372036854775807", "9223372036854775808", "1e400", ".5", "5.", "0x1"],
    *[
        "'a'",
        "''",
        "'it''s'",
        "'%a_'",
        "'\ud800'",
        "'\U0001f600'",
        "timestamp '2024-05-01 10:30:00'",
        "date '2024-02-30'",
    ],
    *["timestamp '0000-00-00'", "double 'nan'", "double 'inf'", "true", "null", "'(a+)+$'", "'['", "'\\'", "'a{1000}'"],
]
NAMES = ["x", "y", "a.b", "s", "t", "flag", "`q r`"]
TERMS = [
    *[
        "lower({})",
        "upper({})",
        "trim({})",
        "length({})",
        "abs({})",
        "round({}, 1)",
        "floor({})",
        "-{}",
        "({})",
        "list_max({})",
    ],
    *[
        "{} + {}",
        "{} - {}",
        "{} * {}",
        "{} / {}",
        "{} % {}",
        "{} || {}",
        "coalesce({}, {})",
        "least({}, {})",
        "greatest({}, {})",
    ],
    *[
        "substr({}, {})",
        "substr({}, {}, {})",
        "replace({}, {}, {})",
        "concat({}, {}, {})",
        "if({} > 1, {}, {})",
        "date_trunc('day', {})",
        "to_timestamp({})",
    ],
    *[
        "case when {} = {} then {} end",
        "case when {} then {} else {} end",
        "{} + interval '1 day'",
        "{} - interval '{} hours'",
        "now()",
    ],
    *["extract(hour from {})", "len({})"],
]
HOLDING = [
    *[
        "list_contains({}, {})",
        "list_has_any({}, [{}, {}])",
        "list_has_all({}, [{}])",
        "{} = any({})",
        "{} < all({})",
        "exists({}, {} > 1)",
    ],
    *[
        "starts_with({}, {})",
        "ends_with({}, {})",
        "contains({}, {})",
        "ip_in({}, '10.0.0.0/8')",
        "ip_in({}, {})",
        "{} ilike {}",
    ],
    *[
        "geo_within({}, {}, 52.5, 13.4, 30)",
        "geo_in_box({}, {}, 0, 0, {}, {})",
        "geo_in_polygon({}, {}, 'POLYGON((0 0, 3 0, 0 3, 0 0))')",
    ],
    *[
        "{} is distinct from {}",
        "({} > 1) = {}",
        "{} in ({}, {})",
        "{} between {} and {}",
        "{} < now()",
        "unknown({}, {})",
        "lower({}, {}) = {}",
    ],
]
"""Filled with names, constants and terms, whether or not they fit."""
VALUES: list[Any] = [
    *[None, True, False, 0, 1, -1, 5.5, 1e300, -0.0, math.nan, math.inf, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**40],
    *["", "a", "it's", "\ud800", "\0", "é" * 50, b"bytes", (1,), [1, "a", None], [], {}, {"b": 1}, {"b": {"c": [1]}}],
    *[datetime.datetime(2024, 5, 1), datetime.datetime(1, 1, 1, tzinfo=datetime.UTC), datetime.date(9999, 12, 31)],
    *[datetime.timedelta(1), decimal.Decimal("1.5"), decimal.Decimal("NaN"), decimal.Decimal("1e9999"), 1j, object, {1, 2}],
    *[np.int64(5), np.float32(1.5), np.bool_(True), np.str_("a"), np.datetime64("NaT"), np.datetime64(10**18, "s"), np.array([1])],
    *[{1: 2}, {"": 1}, {"\ud800": 1}, {None: 1}, float("-inf"), np.timedelta64(1, "s"), np.uint64(2**64 - 1), np.void(b"a")],
]  # fmt: skip


def text(chance: random.Random) -> str:
    """An expression, or something like it."""
    how = chance.random()
    if how < 0.15:
        return " ".join(chance.choice(WORDS + CONSTANTS) for _ in range(chance.randrange(12)))
    if how < 0.2:
        return "".join(
            chr(chance.choice([chance.randrange(128), chance.randrange(0x110000)])) for _ in range(chance.randrange(20))
        )
    found = _expression(chance, chance.choice([0, 0, 1, 1, 2, 3]))
    if how < 0.5:
        place = chance.randrange(len(found) + 1)
        other = chance.choice(["", chance.choice(WORDS), chance.choice(CONSTANTS), found[: chance.randrange(9)]])
        found = found[:place] + other + found[place + chance.choice([0, 0, 1, 3]) :]
    return found


def _term(chance: random.Random, depth: int) -> str:
    how = chance.random()
    if depth and how < 0.4:
        found = chance.choice(TERMS)
        for _ in range(found.count("{}")):
            found = found.replace("{}", _term(chance, depth - 1), 1)
        return found
    return (
        chance.choice([*NAMES, "l", "o"]) if how < 0.75 else chance.choice([*CONSTANTS, "3", "2", "-1", "'10.1.2.3'"])
    )


def _computed(chance: random.Random) -> str:
    """A predicate on computed attributes, lists, networks or places."""
    found = chance.choice(
        [*HOLDING, *["{} = {}", "{} < {}", "{} >= {}", "{} != {}", "{} is not null", "{} like 'a%'"] * 2]
    )
    for _ in range(found.count("{}")):
        found = found.replace("{}", _term(chance, 2), 1)
    return found


def _expression(chance: random.Random, depth: int) -> str:
    if depth:
        parts = [_expression(chance, depth - 1) for _ in range(chance.choice([1, 2, 2, 3]))]
        joined = f" {chance.choice(['and', 'or', 'AND', 'Or'])} ".join(parts)
        return chance.choice(["{}", "({})", "not ({})", "not {}"]).format(joined)
    if chance.random() < 0.3:
        return _computed(chance)
    name = chance.choice(NAMES)
    constant = lambda: chance.choice(CONSTANTS) if chance.random() < 0.4 else str(chance.randrange(-5, 9))  # noqa: E731
    return chance.choice(
        [
            f"{name} {chance.choice(['=', '!=', '<', '<=', '>', '>=', '<>'])} {constant()}",
            f"{name} {chance.choice(['', 'not '])}between {constant()} and {constant()}",
            f"{name} {chance.choice(['', 'not '])}in ({', '.join(constant() for _ in range(chance.randrange(5)))})",
            f"{name} {chance.choice(['', 'not '])}like {chance.choice(CONSTANTS)}",
            f"{name} {chance.choice(['', 'not '])}{chance.choice(['regexp', 'rlike'])} {chance.choice(CONSTANTS)}",
            f"{name} is {chance.choice(['', 'not '])}null",
            name,
            chance.choice(["true", "false", f"{constant()} = {name}"]),
        ]
    )  # fmt: skip


def event(chance: random.Random, most: int = 6) -> Any:
    """A dict of strange values, rarely something else."""
    if chance.random() < 0.02:
        return chance.choice(VALUES)
    keys = [chance.choice(["x", "y", "a", "a.b", "s", "t", "flag", "q r", "z"]) for _ in range(chance.randrange(most))]
    return {key: _value(chance, 2) for key in keys}


def _value(chance: random.Random, depth: int) -> Any:
    if depth and chance.random() < 0.1:
        return {chance.choice(["b", "c", "x.y"]): _value(chance, depth - 1) for _ in range(chance.randrange(3))}
    return chance.choice(VALUES) if chance.random() < 0.3 else chance.randrange(-5, 9)


PIECES = [
    *[b"", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\u12", b"1e", b"-", b"NaN", b"Infinity", b"\xff", b"\xed\xa0\x80"],
    *[b"\xef\xbb\xbf", b" ", b"\t", b"\x00", b"00", b".5", b"1" * 400, b"true", b"nul", b'\\"', b"{" * 50, b"[" * 50],
]  # fmt: skip
"""Put into a line of JSON."""


def json_line(chance: random.Random) -> bytes:
    """A JSON document, or something like it, in one line."""
    names = ["x", "y", "a", "s", "t", "flag", "q r", "\u00e9", "x\\u0000", "\\ud800"]
    document: Any = {chance.choice(names): _json_value(chance, 3) for _ in range(chance.randrange(6))}
    line = json.dumps(document, ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass")
    for _ in range(chance.choice([0, 0, 0, 1, 1, 3])):
        place = chance.randrange(len(line) + 1)
        other = chance.choice(PIECES)
        line = line[:place] + other + line[place + chance.choice([0, 0, 1, 4]) :]
    return line.replace(b"\n", b" ").replace(b"\r", b" ")


JSON_VALUES = [
    *[None, True, False, 0, 1, -7, 5.5, 1e300, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**30],
    *["", "a", 'q"q', "\\", "é", "\U0001f600"],
]


def _json_value(chance: random.Random, depth: int) -> Any:
    how = chance.random()
    if depth and how < 0.15:
        return {chance.choice("bcx"): _json_value(chance, depth - 1) for _ in range(chance.randrange(4))}
    if depth and how < 0.25:
        return [_json_value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return chance.choice(JSON_VALUES)


TYPES = [
    *[pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.large_string()],
    *[pa.string_view(), pa.binary(), pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.null()],
    *[pa.date32(), pa.date64(), pa.time64("us"), pa.duration("s"), pa.decimal128(20, 3), pa.decimal256(60, -2)],
    *[pa.list_(pa.int64()), pa.struct([("b", pa.int64()), ("c", pa.string())]), pa.map_(pa.string(), pa.float64())],
    *[pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64()), pa.run_end_encoded(pa.int32(), pa.string())],
    *[pa.list_view(pa.int8()), pa.struct([]), pa.map_(pa.int64(), pa.string()), pa.large_list(pa.string())],
    *[pa.binary_view(), pa.month_day_nano_interval()],
]  # fmt: skip


def table(chance: random.Random) -> Any:
    """Columns of any type, sliced, chunked, with nulls, with names that occur twice."""
    rows = chance.choice([0, 1, 2, 7])
    columns, names = [], []
    for _ in range(chance.randrange(1, 5)):
        kind = chance.choice(TYPES)
        try:
            column = pa.array(np.array([chance.choice([0, 1, 5]) for _ in range(rows + 2)]), pa.int64()).cast(kind)
        except (pa.ArrowException, TypeError):
            column = pa.nulls(rows + 2, kind)
            if chance.random() < 0.8:
                column = _strange_column(chance, kind, rows + 2) or column
        if chance.random() < 0.3:
            chosen = [chance.choice([None, 0, 1]) for _ in range(rows + 2)]
            with suppress(pa.ArrowException, TypeError):
                column = column.take(pa.array(chosen, pa.int64()))
        columns.append(column.slice(chance.choice([0, 1, 2]), rows))
        names.append(chance.choice(["x", "y", "a.b", "a", "s", "t", "flag", "q r", ""]))
    return pa.Table.from_arrays(columns, names)


def _strange_column(chance: random.Random, kind: Any, rows: int) -> Any:
    samples: list[Any] = [
        "a",
        "é",
        b"\xff",
        [1],
        [],
        {"b": 1},
        [("k", 1.0)],
        datetime.datetime(2024, 5, 1),
        datetime.timedelta(5),
    ]
    samples += [datetime.date(1, 1, 1), decimal.Decimal(5), {}]
    for sample in chance.sample(samples, len(samples)):
        try:
            return pa.array([chance.choice([sample, None]) for _ in range(rows)], kind)
        except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError):
            continue
    return None


def changed_bytes(chance: random.Random, content: bytes) -> bytes:
    """A few bits flipped, bytes put in or taken out, or the end cut off."""
    found = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        how, place = chance.randrange(5), chance.randrange(len(found) + 1)
        if how <= 1 and place < len(found):
            found[place] ^= 1 << chance.randrange(8)
        elif how == 2:
            found[place:place] = chance.choice(
                [bytes(chance.randrange(9)), chance.randbytes(chance.randrange(9)), b"\xff" * 8]
            )
        elif how == 3:
            del found[place : place + chance.choice([1, 4, 64])]
        else:
            del found[place:]
    return bytes(found)


FIELDS = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63 - 1,
    2**64 - 1,
    0.5,
    math.nan,
    "",
    "x",
    b"",
    b"\xff" * 8,
    [],
    [[]],
    {},
    {"a": 1},
    [1, [2]],
]


def strange_field(chance: random.Random, value: Any) -> Any:
    """A value of msgpack with another value somewhere in it."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {other: each for other, each in value.items() if other != key}
        return {**value, key: strange_field(chance, value[key])}
    if isinstance(value, list | tuple) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        return [*value[:place], strange_field(chance, value[place]), *value[place + 1 :]]
    if isinstance(value, bytes) and value and chance.random() < 0.8:
        return changed_bytes(chance, value)
    if isinstance(value, int) and chance.random() < 0.5:
        return value + chance.choice([-1, 1, 255, 2**32])
    return chance.choice(FIELDS)


def repacked(chance: random.Random, content: bytes) -> bytes:
    """Packed msgpack with a strange field, or with changed bytes."""
    if chance.random() < 0.5:
        return changed_bytes(chance, content)
    packed: bytes = msgpack.packb(strange_field(chance, msgpack.unpackb(content, strict_map_key=False)))
    return packed
