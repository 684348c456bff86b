"""Expressions that ignore case: the same as if both sides were written in lower case."""

from __future__ import annotations

import pickle
import unicodedata
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.errors import SettingError
from ray_pubsub.language.functions.folding import simple_lower, simple_upper
from ray_pubsub.language.printer import write
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.settings import Limits

TEXTS = [
    "name = 'Ann'", "name != 'Ann'", "name in ('Ann', 'BOB')", "name not in ('Ann', 'BOB')", "name like 'A_%N'",
    "not name like 'aX%' escape 'X'",
    "name >= 'b' and name < 'Q'", "name between 'B' and 'q'", "name not between 'B' and 'q'", "starts_with(name, 'AN')",
    "contains(name, 'N')",
    "lower(name) = 'ANN'", "trim(name) = 'ann'", "name = 5 or name = 'Ann'", "name is null", "name ilike 'ANN'", "name regexp '^A'",
    "exists(items, color = 'RED' and n > 1)", "not (name = 'ANN' or n = 1)", "name = 'STRA\u00dfE'", "name = '\u0130'", "name = other",
    "case when name = 'Ann' then 1 when name like 'B%' then 2 else 0 end + n >= 3", "if(name in ('ANN', 'X'), 'Yes', 'No') = 'YES'",
    "case name when 'Ann' then n end = 2", "(name = 'Ann') = true", "(name between 'B' and 'q') is not null and n = 2",
    "coalesce(name = 'ANN', n = 2) = true", "case when exists(items, color = 'RED') then true end",
    "exists(items, case when color = 'RED' then n else 0 end > 1)", "(not (name = 'Ann' and n = 2)) = (name = 'Bob')",
    "if(n = 2, n, 0) between 1 and 3 and name = 'Ann'", "if(if(name = 'Ann', 'B', 'C') = 'b', 1, 0) in (1, 3)",
    "case when name regexp '^A' or name = other then 1 end is not null", "(name = 'Ann') != (other = 'ANN')",
]  # fmt: skip
FOLDED = [
    "lower(name) = 'ann'", "lower(name) != 'ann'", "lower(name) in ('ann', 'bob')", "lower(name) not in ('ann', 'bob')",
    "lower(name) like 'a_%n'", "not lower(name) like 'ax%' escape 'x'", "lower(name) >= 'b' and lower(name) < 'q'",
    "lower(name) between 'b' and 'q'", "lower(name) not between 'b' and 'q'", "lower(name) like 'an%'", "lower(name) like '%n%'",
    "lower(name) = 'ann'", "lower(trim(name)) = 'ann'", "name = 5 or lower(name) = 'ann'", "name is null", "lower(name) like 'ann'",
    "name regexp '^A'", "exists(items, lower(color) = 'red' and n > 1)", "not (lower(name) = 'ann' or n = 1)",
    "lower(name) = 'stra\u00dfe'", "lower(name) = 'i'", "name = other",
    "case when lower(name) = 'ann' then 1 when lower(name) like 'b%' then 2 else 0 end + n >= 3",
    "lower(if(lower(name) in ('ann', 'x'), 'Yes', 'No')) = 'yes'",
    "case lower(name) when 'ann' then n end = 2", "(lower(name) = 'ann') = true",
    "(lower(name) between 'b' and 'q') is not null and n = 2",
    "coalesce(lower(name) = 'ann', n = 2) = true", "case when exists(items, lower(color) = 'red') then true end",
    "exists(items, case when lower(color) = 'red' then n else 0 end > 1)",
    "(not (lower(name) = 'ann' and n = 2)) = (lower(name) = 'bob')",
    "if(n = 2, n, 0) between 1 and 3 and lower(name) = 'ann'", "if(lower(if(lower(name) = 'ann', 'B', 'C')) = 'b', 1, 0) in (1, 3)",
    "case when name regexp '^A' or name = other then 1 end is not null", "(lower(name) = 'ann') != (lower(other) = 'ann')",
]  # fmt: skip
EVENTS: list[dict[str, Any]] = [
    {"name": name, "n": 2}
    for name in (
        "ann",
        "Ann",
        "ANN",
        "bob",
        "Xnn",
        "ax",
        "AX%",
        " ANN ",
        "q",
        "Q",
        "a",
        5,
        "Stra\u00dfe",
        "\u0130",
        "i",
        "",
        None,
    )
] + [
    {"items": [{"color": "Red", "n": 2}]},
    {"items": [{"color": "Red", "n": 1}]},
    {"name": "Ann", "other": "Ann"},
    {"name": "Ann", "other": "ann"},
    {"name": "Ann", "other": "x"},
]


@pytest.mark.parametrize("engine", ["auto", "rein", "dexin", "gem", "opindex", "scan"])
def test_the_same_as_in_lower_case(engine: str) -> None:
    plain, folded = MatchIndex("scan"), MatchIndex(engine, ignore_case=True)
    for number, (text, same) in enumerate(zip(TEXTS, FOLDED, strict=True)):
        plain.add(number, same)
        folded.add(number, text)
    expected = [sorted(ids) for ids in plain.match_many(EVENTS)]
    assert [sorted(ids) for ids in folded.match_many(EVENTS)] == expected
    together = MatchIndex(engine, ignore_case=True)
    together.add_many(range(50 * len(TEXTS)), TEXTS * 50)  # as many as kernels compile otherwise
    found = [sorted(id for id in ids if id < len(TEXTS)) for ids in together.match_many(EVENTS)]
    assert found == expected
    assert {number for ids in expected for number in ids} == set(range(len(TEXTS)))
    assert folded.expression(0) == TEXTS[0]


def test_a_known_shape_is_folded_too() -> None:
    shapes = ShapeCache(Limits(), ignore_case=True)
    assert write(shapes.parse("name = 'Ann'").tree) == "lower(name) = 'ann'"
    assert write(shapes.parse("name = 'BOB'").tree) == "lower(name) = 'bob'"
    assert [write(shapes.parse(f"starts_with(name, '{text}')").tree) for text in ("AB", "CD_")] == [
        "lower(name) like 'ab%' escape '\\'",
        write(ShapeCache(Limits()).parse("starts_with(lower(name), 'cd_')").tree),
    ]


@pytest.mark.parametrize("engine", ["auto", "rein"])
def test_saved_with_the_index(engine: str, tmp_path: Path) -> None:
    index = MatchIndex(ignore_case=True)
    index.add("s", "name = 'Ann'")
    index.save(tmp_path / "index")
    for copy in (MatchIndex.load(tmp_path / "index", engine=engine), pickle.loads(pickle.dumps(index))):
        copy.add("t", "name = 'aNN'")
        assert copy.ignore_case
        assert sorted(copy.match({"name": "ANN"})) == ["s", "t"]
        assert "ann" in str(copy.explain({"name": "ANN"}, "s"))


def test_it_is_true_or_false() -> None:
    with pytest.raises(SettingError, match="ignore_case: must be True or False"):
        MatchIndex(ignore_case=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("term", ["floor(o)", "now()", "length(substr(o, 2))", "case when o then 2 else null end"])
def test_ilike_of_what_is_never_a_text_refuses_that_expression_alone(term: str) -> None:
    index = MatchIndex()
    report = index.add_many(["bad", "good"], [f"{term} ilike 'x'", "name ilike 'X'"])
    assert [rejection.position for rejection in report.rejections] == [0]
    assert list(index.match({"o": 1.5, "name": "x"})) == ["good"]


def test_the_case_of_every_character_is_duckdbs() -> None:
    """Except for the upper case of ß, which docs/language.md names."""
    letters = [chr(code) for code in [*range(1, 0x2E80), *range(0xA000, 0xD800), *range(0xE000, 0x1F000)]]
    letters = [each for each in letters if unicodedata.category(each)[0] in "LMNS"]
    table = duckdb.from_arrow(pa.table({"letter": letters}))
    found = table.project("letter, lower(letter), upper(letter)").fetchall()
    assert [letter for letter, lower, _ in found if simple_lower(letter) != lower] == []
    assert [letter for letter, _, upper in found if simple_upper(letter) != upper] == ["\u00df"]


def test_ilike_and_ignore_case_compare_in_lower_case_and_do_not_fold() -> None:
    """As docs/language.md says: letters that have only their upper case in common stay different. A (?i) in a pattern does fold."""
    pairs = [("\u03c3", "\u03c2"), ("s", "\u017f"), ("\u03bc", "\u00b5"), ("\u03b2", "\u03d0"), ("\u00df", "ss")]
    plain, folded = MatchIndex(), MatchIndex(ignore_case=True)
    for number, (left, _) in enumerate(pairs):
        plain.add(f"ilike {number}", f"name ilike '{left}'")
        plain.add(f"regexp {number}", f"name regexp '(?i)^{left}$'")
        folded.add(number, f"name = '{left}'")
    for number, (left, right) in enumerate(pairs):
        assert folded.match({"name": right}) == []
        assert plain.match({"name": right}) == ([f"regexp {number}"] if len(right) == 1 else [])
        assert sorted(plain.match({"name": left})) == [f"ilike {number}", f"regexp {number}"]
        assert folded.match({"name": left.upper() if len(left.upper()) == 1 else left}) == [number]


def test_case_is_changed_character_by_character() -> None:
    """In whole texts Python makes several characters of some, and of others what depends on their neighbours."""
    blocks = range(0x3000), range(0xA640, 0xAC00), range(0xFB00, 0xFB20), range(0x10400, 0x10480)
    for character in (chr(number) for block in blocks for number in block):
        alone = character.lower()[:1]
        assert (
            simple_lower(f"A{character}B\u00e9") == f"a{alone}b\u00e9" and simple_lower(f"a{character}") == f"a{alone}"
        )
        assert simple_upper(f"a{character}b\u00e9") == f"A{simple_upper(character)}B\u00c9"
        assert len(simple_upper(character)) == 1
