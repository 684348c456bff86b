"""Many patterns at once say what each says alone: on generated and hostile patterns, and live in every engine."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub import MatchIndex
from ray_pubsub.columns.literal_search import LiteralSearch
from ray_pubsub.columns.pattern_set import FEW, PatternSet
from ray_pubsub.columns.regexp_set import RegexpSet
from ray_pubsub.index.engine_choice import ENGINES
from ray_pubsub.language.parser import parse
from ray_pubsub.language.patterns import compile_regexp
from ray_pubsub.language.required_text import required_text
from ray_pubsub.language.tree import Like, Operand, Regexp
from ray_pubsub.language.truth import truth
from ray_pubsub.language.words import BadConstant
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.model.values import Kind, Value

HOSTILE_REGEXPS = [
    "", "^", "$", "^$", r"\A", r"\z", r"\A\z", "a", "^a", "a$", "^a$", "(?i)AB", "(?i:A)b", "a(?i)B", "(?s).",
    "(?m)^b$", ".", r"\.", r"a\.b", r"\bab\b", r"\Bb", "a|b", "ab|", "(a|b)c", "(?:ab)?c", "ab?c", "ab*c", "ab+c",
    "ab{0}c", "ab{2}c", "ab{0,1}c", "ab{2,}c", "a{,2}b", "a{b", "a{1", "[ab]c", "[^ab]c", "[]a]b", "[^]a]b", "[a-c]b",
    "[[:alpha:]]b", r"[\]a]b", r"[\d]b", "a]b", r"\x61b", r"\x{62}", r"\101", r"\Qa.b\E", r"\Qa.b", r"\pLb",
    r"\p{Greek}b", "é", "(?i)É", "ü+", "\U0001f600", "\n", r"\n", "a\nb", "a.b", "(?s)a.b", "\0", r"\x00", "a\0b",
    "(?P<x>a)b", "((a)(b))c", "a??b", "ab+?", "(ab){2}", "(ab)*c", "x*", "^x*$", "(?U)a+", "%", "_", "'", r"\\",
    r"\(a\)", r"\$", "a b", "(?i)\u017f", "(?i)k", r"\w\W", r"\s", "日本", "(?:a|bc)d", "[a|b]c", "(a[)]b)c",
    r"(a\)b)c", "a(b|c", "*a", "a**", r"\8", "[b-a]", "[[:foo:]]", r"\C",
]  # fmt: skip
HOSTILE_LIKES: list[tuple[str, str | None]] = [
    ("", None), ("%", None), ("%%", None), ("_", None), ("%_%", None), ("__%", None), ("%a", None), ("%a%", None),
    ("%ab", None), ("%ab%", None), ("a%b", None), ("%a_b%", None), ("%a%b%", None), ("%.%", None), ("%\\%", None),
    ("%!%%", "!"), ("%!_", "!"), ("%!!%", "!"), ("a!%b%", "!"), ("%é", None), ("%日本%", None), ("%\n%", None),
    ("%\0%", None), ("%\0", None), ("_b%", None), ("%b_", None), ("%\U0001f600", None), ("%A%", None), ("%(%", None),
    ("%[a]%", None), ("%a%a%", None), ("%aa%", None), ("%aaa", None), ("%'%", None), ("%%%a", None), ("%a%%", None),
    ("b", None),
]  # fmt: skip
STRINGS = [
    "", "a", "b", "ab", "ba", "abc", "ac", "abbc", "aab", "aaa", "aaaa", "AB", "Ab", "aB", "a.b", "a\nb", "\n", "b\n",
    "\nb", "a\0b", "\0", "é", "É", "éb", "\u03b1b", "ü", "üü", "日本", "日", "\U0001f600", "x\U0001f600", "%", "_", "'",
    "\\", "(a)", "$", "a b", "ab ab", "ababc", "a]b", "]b", "a{b", "a{,2}b", "a{1", "[a]", "\u017f", "s", "S", "K",
    "k", "\u212a", "cd", "bcd", "1b", "x", "xx", "a|b", "|c", "a_b", "axb", "a\\Qb", "Qa", "~", "\x7f", "a)b",
]  # fmt: skip


def regexp(pattern: str) -> Regexp:
    return Regexp("s", Operand(Kind.STRING, pattern))


def like(pattern: str, escape: str | None = None) -> Like:
    return Like("s", Operand(Kind.STRING, pattern), escape)


def is_valid(leaf: Like | Regexp) -> bool:
    try:
        truth(leaf, {"s": Value(Kind.STRING, "")})
    except BadConstant:
        return False
    return True


HOSTILE = [leaf for leaf in [*map(regexp, HOSTILE_REGEXPS), *(like(*each) for each in HOSTILE_LIKES)] if is_valid(leaf)]


def expected(leaves: list[Any], strings: list[str]) -> list[list[int]]:
    return [
        [number for number, leaf in enumerate(leaves) if truth(leaf, {"s": Value(Kind.STRING, text)}) is True]
        for text in strings
    ]


def answers(leaves: list[Any], strings: list[str]) -> list[list[int]]:
    offsets, numbers = PatternSet(leaves).matches(strings)
    return [sorted(numbers[first:last].tolist()) for first, last in pairwise(offsets)]


def test_hostile_patterns() -> None:
    assert len(HOSTILE) > 110
    assert answers(HOSTILE, STRINGS) == expected(HOSTILE, STRINGS)
    assert answers(HOSTILE, []) == []


def test_a_few_patterns_are_asked_one_by_one() -> None:
    for start in range(0, len(HOSTILE), FEW):
        leaves = HOSTILE[start : start + FEW]
        assert answers(leaves, STRINGS) == expected(leaves, STRINGS)


ATOMS = [
    "a", "b", "ab", "abc", "é", ".", "[ab]", "[^a]", "[]a]", "[[:digit:]]", r"\d", r"\w", r"\.", r"\b", "(a|b)",
    "(?:ab)", "(?i:b)", "^", "$", "\n", r"\\", "{", "}", "]", r"\Qb.\E", r"\x61", r"\pL", "|", "(", ")", "(?i)",
]  # fmt: skip
patterns = st.lists(
    st.tuples(st.sampled_from(ATOMS), st.sampled_from(["", "", "", "", "*", "+", "?", "{2}", "{0,1}", "{1,}", "*?", "{,3}"])), max_size=5
).map(lambda parts: "".join(atom + repeat for atom, repeat in parts))  # fmt: skip
texts = st.text(st.sampled_from("abcAB1é.\n]{}\\ ,3"), max_size=8)


@settings(max_examples=150, deadline=None)
@given(st.lists(patterns, min_size=FEW + 1, max_size=40), st.lists(texts, min_size=1, max_size=12, unique=True))
def test_generated_regexps(drawn: list[str], strings: list[str]) -> None:
    leaves = [leaf for leaf in map(regexp, drawn) if is_valid(leaf)]
    assert answers(leaves, strings) == expected(leaves, strings)
    for leaf in leaves:
        for text in strings:
            if compile_regexp(leaf.pattern.plain).search(text) is not None:
                assert required_text(leaf) in text


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("ab_%%é!"), max_size=6), min_size=FEW + 1, max_size=60),
    st.lists(st.text(st.sampled_from("abé%_"), max_size=7), min_size=1, max_size=12, unique=True),
)
def test_generated_likes(drawn: list[str], strings: list[str]) -> None:
    leaves = [leaf for leaf in (like(pattern, "!") for pattern in drawn) if is_valid(leaf)]
    assert answers(leaves, strings) == expected(leaves, strings)


@pytest.mark.parametrize(
    ("leaf", "text"),
    [
        (regexp("^foo+bar"), "foo"), (regexp("ab?cde"), "cde"), (regexp(r"a\.com$"), "a.com"), (regexp("(foo|bar)baz"), "baz"),
        (regexp("foo|bar"), ""), (regexp("(?i)foo"), ""), (regexp(r"\x61foo"), ""), (regexp("x{2}yz"), "yz"), (regexp("[abc]de"), "de"),
        (regexp(r"\d+ items"), " items"), (like("a%bcd_e"), "bcd"), (like("%_%"), ""), (like("%10!%%", "!"), "10%"),
    ],
)  # fmt: skip
def test_required_text(leaf: Like | Regexp, text: str) -> None:
    assert required_text(leaf) == text


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("abcé"), min_size=1, max_size=5), min_size=1, max_size=40, unique=True),
    st.lists(st.text(st.sampled_from("abcé"), max_size=30), max_size=20),
)
def test_literal_search(searched: list[str], strings: list[str]) -> None:
    search = LiteralSearch(searched)
    for _ in range(2):  # what one call has seen is no matter to the next
        offsets, numbers, ending = search.find([text.encode() for text in strings])
        found = [sorted(zip(numbers[first:last], ending[first:last], strict=True)) for first, last in pairwise(offsets)]
        assert found == [
            [(number, text.endswith(part)) for number, part in enumerate(searched) if part in text] for text in strings
        ]


def test_more_hits_than_there_was_room_for() -> None:
    searched = ["a" * length for length in range(1, 300)]
    offsets, numbers, ending = LiteralSearch(searched).find([b"a" * 1000, b"", b"b", b"aab"])
    assert offsets == [0, 299, 299, 299, 301] and sorted(numbers[:299]) == list(range(299)) and all(ending[:299])
    assert ending[299:] == [False, False]


@pytest.mark.parametrize("memory", [1, 20_000, 60_000, 200_000, 2 << 20])
def test_a_set_without_memory_asks_one_by_one(memory: int) -> None:
    """With the least memory no set can be made, with a little more only of few patterns."""
    random = Random(3)
    drawn = [f"[ab]{{{random.randint(1, 9)}}}{random.choice('ab.')}[ab]{{{random.randint(1, 20)}}}" for _ in range(200)]
    together = RegexpSet(drawn, range(1000, 1200), memory=memory)
    strings = ["".join(random.choices("ab", k=random.randint(0, 40))) for _ in range(40)]
    for text in strings:
        alone = [number for number, pattern in enumerate(drawn, 1000) if compile_regexp(pattern).search(text)]
        assert sorted(together.matches(text.encode())) == alone


class Round(NamedTuple):
    one_by_one: dict[int, str]
    together: dict[int, str]
    gone: list[int]
    matches: list[list[int]]
    """Of each event, afterwards."""


@cache
def history() -> tuple[list[dict[str, Any]], list[Round]]:
    """Events and changes with what is true after them, asked pattern by pattern: the same for every engine."""
    random = Random(7)
    literals = [f"s {word} {text}" for word in ("", "not") for text in written()]
    extras = ["", " and a = 1", " and s > 'a'", " or a = 2", " and s not like '%c%'"]
    events: list[dict[str, Any]] = [{"s": text, "a": random.randint(0, 3)} for text in STRINGS]
    events += [{"a": 1}, {"s": 5}, {"s": True, "a": 2}, {}]
    values = [flatten(event) for event in events]
    kept: dict[int, list[bool]] = {}
    rounds = []
    for start in range(0, 3000, 1000):
        added = {number: random.choice(literals) + random.choice(extras) for number in range(start, start + 700)}
        for number, text in added.items():
            tree = parse(text)
            kept[number] = [truth(tree, each) is True for each in values]
        gone = random.sample(sorted(kept), 200)
        for number in gone:
            del kept[number]
        matches = [[number for number, holds in kept.items() if holds[place]] for place in range(len(events))]
        parts = [dict(list(added.items())[part]) for part in (slice(500), slice(500, None))]
        rounds.append(Round(*parts, gone, matches))
    return events, rounds


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "scan"])
def test_live(engine: str) -> None:
    """Patterns come and go: in the tail, in blocks, merged, removed; alone, negated, beside other tests."""
    events, rounds = history()
    index = MatchIndex(engine)
    for one_by_one, together, gone, matches in rounds:
        for number, text in one_by_one.items():
            index.add(number, text)
        index.add_many(together.keys(), together.values(), atomic=True)
        for number in gone:
            index.remove(number)
        found = index.match_many(events)
        assert [sorted(found[place]) for place in range(len(events))] == matches


def written() -> list[str]:
    found = []
    for leaf in HOSTILE:
        quoted = "'" + leaf.pattern.plain.replace("'", "''") + "'"
        if isinstance(leaf, Like):
            found.append(f"like {quoted}" + (f" escape '{leaf.escape}'" if leaf.escape else ""))
        else:
            found.append(f"regexp {quoted}")
    return found
