"""Many patterns at once say what each says alone: on generated and hostile patterns, and live in every engine."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub import MatchIndex
from ray_pubsub.columns import literal_search, pattern_set
from ray_pubsub.columns.literal_search import Literal, LiteralSearch
from ray_pubsub.columns.pattern_set import FEW, PatternSet
from ray_pubsub.columns.regexp_set import RegexpSet
from ray_pubsub.columns.text_automaton import TextAutomaton
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.kernels.columns.gram_search import CANDIDATES
from ray_pubsub.language.parser import parse
from ray_pubsub.language.patterns import compile_regexp
from ray_pubsub.language.required_text import RequiredText, required_texts
from ray_pubsub.language.tree import Like, Operand, Regexp
from ray_pubsub.language.truth import truth
from ray_pubsub.language.words import BadConstant
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.model.text_column import TextColumn
from ray_pubsub.model.values import Kind, Value

HOSTILE_REGEXPS = [
    "", "^", "$", "^$", r"\A", r"\z", r"\A\z", "a", "^a", "a$", "^a$", "(?i)AB", "(?i:A)b", "a(?i)B", "(?s).",
    "(?m)^b$", ".", r"\.", r"a\.b", r"\bab\b", r"\Bb", "a|b", "ab|", "(a|b)c", "(?:ab)?c", "ab?c", "ab*c", "ab+c",
    "ab{0}c", "ab{2}c", "ab{0,1}c", "ab{2,}c", "a{,2}b", "a{b", "a{1", "[ab]c", "[^ab]c", "[]a]b", "[^]a]b", "[a-c]b",
    "[[:alpha:]]b", r"[\]a]b", r"[\d]b", "a]b", r"\x61b", r"\x{62}", r"\101", r"\Qa.b\E", r"\Qa.b", r"\pLb",
    r"\p{Greek}b", "é", "(?i)É", "ü+", "\U0001f600", "\n", r"\n", "a\nb", "a.b", "(?s)a.b", "\0", r"\x00", "a\0b",
    "(?P<x>a)b", "((a)(b))c", "a??b", "ab+?", "(ab){2}", "(ab)*c", "x*", "^x*$", "(?U)a+", "%", "_", "'", r"\\",
    r"\(a\)", r"\$", "a b", "(?i)\u017f", "(?i)k", r"\w\W", r"\s", "日本", "(?:a|bc)d", "[a|b]c", "(a[)]b)c",
    r"(a\)b)c", "a(b|c", "*a", "a**", r"\8", "[b-a]", "[[:foo:]]", r"\C", "a(?i)*", "ab(?i)?c", "a(?i)(?s){0}b",
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


LEAVES: list[Like | Regexp] = [*map(regexp, HOSTILE_REGEXPS), *(like(*each) for each in HOSTILE_LIKES)]
HOSTILE = [leaf for leaf in LEAVES if is_valid(leaf)]


def expected(leaves: list[Any], strings: list[str]) -> list[list[int]]:
    return [
        [number for number, leaf in enumerate(leaves) if truth(leaf, {"s": Value(Kind.STRING, text)}) is True]
        for text in strings
    ]


def answers(leaves: list[Any], strings: list[str]) -> list[list[int]]:
    """Of all strings at once, and of each alone."""
    patterns = PatternSet(leaves)
    offsets, numbers = patterns.matches(TextColumn(None, strings))
    found = [sorted(numbers[first:last].tolist()) for first, last in pairwise(offsets)]
    assert [sorted(patterns.matches_of(text)) for text in strings] == found
    return found


def test_hostile_patterns() -> None:
    assert len(HOSTILE) > 110
    assert answers(HOSTILE, STRINGS) == expected(HOSTILE, STRINGS)
    assert answers(HOSTILE, []) == []


def test_a_few_patterns_are_asked_one_by_one() -> None:
    for leaf in HOSTILE:
        for strings in (STRINGS[:FEW], STRINGS[:1], STRINGS):
            assert answers([leaf], strings) == expected([leaf], strings)


ATOMS = [
    "a", "b", "ab", "abc", "é", ".", "[ab]", "[^a]", "[]a]", "[[:digit:]]", r"\d", r"\w", r"\.", r"\b", "(a|b)",
    "(?:ab)", "(?i:b)", "^", "$", "\n", r"\\", "{", "}", "]", r"\Qb.\E", r"\x61", r"\pL", "|", "(", ")", "(?i)",
]  # fmt: skip
patterns = st.lists(
    st.tuples(st.sampled_from(ATOMS), st.sampled_from(["", "", "", "", "*", "+", "?", "{2}", "{0,1}", "{1,}", "*?", "{,3}"])), max_size=5
).map(lambda parts: "".join(atom + repeat for atom, repeat in parts))  # fmt: skip
texts = st.text(st.sampled_from("abcAB1é.\n]{}\\ ,3"), max_size=8)


@settings(max_examples=150, deadline=None)
@given(st.lists(patterns, min_size=9, max_size=40), st.lists(texts, min_size=1, max_size=12, unique=True))
def test_generated_regexps(drawn: list[str], strings: list[str]) -> None:
    leaves = [leaf for leaf in map(regexp, drawn) if is_valid(leaf)]
    assert answers(leaves, strings) == expected(leaves, strings)
    for leaf in leaves:
        for text in strings:
            if compile_regexp(leaf.pattern.plain).search(text) is not None:
                required = required_texts(leaf)
                assert not required or any(each in (text.lower() if folded else text) for each, folded in required)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("ab_%%é!"), max_size=6), min_size=9, max_size=60),
    st.lists(st.text(st.sampled_from("abé%_"), max_size=7), min_size=1, max_size=12, unique=True),
)
def test_generated_likes(drawn: list[str], strings: list[str]) -> None:
    leaves = [leaf for leaf in (like(pattern, "!") for pattern in drawn) if is_valid(leaf)]
    assert answers(leaves, strings) == expected(leaves, strings)


def required(*texts: str, folded: bool = False) -> tuple[RequiredText, ...]:
    return tuple(RequiredText(text, folded) for text in texts)


@pytest.mark.parametrize(
    ("leaf", "texts"),
    [
        (regexp("^foo+bar"), required("foo")), (regexp("ab?cde"), required("cde")), (regexp(r"a\.com$"), required("a.com")),
        (regexp("(foo|bar)baz"), required("baz")), (regexp("foo|bar"), required("foo", "bar")), (regexp("foo|"), ()),
        (regexp("(?i)Foo"), required("foo", folded=True)), (regexp("(?i)disk-usage"), required("u", "age", folded=True)[1:]),
        (regexp("foo(?i)ba|BAR"), (RequiredText("foo"), RequiredText("bar", True))), (regexp("(?i:a)bcd"), required("bcd")),
        (regexp("(?i)(?-i)FOO"), required("FOO")), (regexp(r"\x61foo"), ()), (regexp("x{2}yz"), required("yz")),
        (regexp("[abc]de"), required("de")), (regexp(r"\d+ items"), required(" items")), (regexp("(?:foo)*x"), required("x")),
        (regexp("(?:foo){0}x"), required("x")), (regexp("(?P<n>foo|(?:barn|bat)).*"), required("foo", "barn", "bat")),
        (like("a%bcd_e"), required("bcd")), (like("%_%"), ()), (like("%10!%%", "!"), required("10%")),
    ],
)  # fmt: skip
def test_required_texts(leaf: Like | Regexp, texts: tuple[RequiredText, ...]) -> None:
    assert required_texts(leaf) == texts


literals = st.builds(
    lambda text, at_end, folded: Literal(text.lower() if folded else text, at_end, folded),
    st.text(st.sampled_from("abcABé "), min_size=1, max_size=18),
    st.booleans(),
    st.booleans(),
)
searched_strings = st.lists(st.text(st.sampled_from("abcABé "), max_size=60), max_size=20)


def pairs_of(search: Any, strings: TextColumn) -> list[tuple[int, int]]:
    first, text = search.find(strings)
    string = first
    if isinstance(search, LiteralSearch):
        string = np.repeat(np.arange(len(strings)), np.diff(first))
        for place, each in enumerate(strings):
            assert sorted(search.find_in_one(each)) == sorted(text[string == place])
    return sorted(zip(string.tolist(), text.tolist(), strict=True))


def expected_pairs(searched: list[Literal], strings: list[str]) -> list[tuple[int, int]]:
    found = []
    for place, string in enumerate(strings):
        lowered = string.encode().lower().decode()
        for number, (text, at_end, folded) in enumerate(searched):
            within = lowered if folded else string
            if within.endswith(text) if at_end else text in within:
                found.append((place, number))
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(literals, min_size=1, max_size=40, unique=True), searched_strings, st.booleans())
def test_literal_search(searched: list[Literal], strings: list[str], sampled: bool) -> None:
    column = TextColumn(None, strings)
    search = LiteralSearch(searched, column if sampled else None)
    for _ in range(2):  # what one call has seen is no matter to the next
        assert pairs_of(search, column) == expected_pairs(searched, strings)
    assert pairs_of(TextAutomaton(searched), column) == expected_pairs(searched, strings)


def test_more_texts_with_one_gram_than_are_listed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are listed in portions; the search is not left to the automaton."""
    monkeypatch.setattr(literal_search, "FREE_WORK", 1 << 30)
    shortest, longest = 8, 2 * CANDIDATES
    search = LiteralSearch([Literal("a" * length) for length in range(shortest, longest)])
    strings = ["", "a" * 7, "b" + "a" * 20, "a" * 8, "ba" * 10, "a" * 30 + "b"]
    offsets, numbers = search.find(TextColumn(None, strings))
    found = [sorted(numbers[first:last].tolist()) for first, last in pairwise(offsets)]
    assert found == [[], [], [*range(13)], [0], [], [*range(23)]]
    assert search._automaton is None


def test_strings_with_gaps_between_them_and_in_any_order() -> None:
    random = Random(5)
    strings = ["".join(random.choices("abc", k=random.randint(0, 40))) for _ in range(300)]
    searched = [Literal("".join(random.choices("abc", k=length))) for length in range(1, 12)]
    search = LiteralSearch(searched, TextColumn(None, strings))
    for places in (np.arange(0, 300, 3), np.arange(300)[::-1], np.arange(0)):
        chosen = TextColumn.encoded(strings).take(places)
        assert pairs_of(search, chosen) == expected_pairs(searched, [strings[place] for place in places])


def test_texts_much_alike_are_left_to_the_automaton(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    find = TextAutomaton.find
    monkeypatch.setattr(TextAutomaton, "find", lambda *arguments: asked.append(1) or find(*arguments))
    searched = [Literal("a" * length, folded=length % 2 == 1) for length in range(1, 300)]
    strings = ["a" * 1000, "", "b", "aab", "A" * 500, "aA" * 900]
    assert pairs_of(LiteralSearch(searched), TextColumn(None, strings)) == expected_pairs(searched, strings)
    assert asked
    asked.clear()
    monkeypatch.setattr(literal_search, "FREE_WORK", 1 << 40)
    assert pairs_of(LiteralSearch(searched), TextColumn(None, strings)) == expected_pairs(searched, strings)
    assert not asked


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
        one_by_one, together = (dict(list(added.items())[part]) for part in (slice(500), slice(500, None)))
        rounds.append(Round(one_by_one, together, gone, matches))
    return events, rounds


@pytest.mark.parametrize("engine", [engine for engine in engine_names() if engine != "scan"])
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


def test_likes_of_several_texts_are_decided_by_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also within characters of several bytes, after runs that were taken too short, and beside patterns that go to RE2."""
    random = Random(8)
    pieces = ["a", "b", "ab", "é", "日", "\U0001f600", "_", "_", "%", "%", "%", "\n"]
    leaves = [like("".join(random.choices(pieces, k=random.randrange(2, 9)))) for _ in range(400)]
    leaves += [like("%a!_b!%_", "!"), like(f"%{'ab' * 200}_%a")]
    letters = ["a", "b", "ab", "é", "日", "\U0001f600", "\n", "%", "_"]
    strings = ["".join(random.choices(letters, k=random.randrange(12))) for _ in range(300)] + [f"x{'ab' * 200}xa"]
    searched: list[str] = []
    compiled_regexp = compile_regexp
    monkeypatch.setattr(pattern_set, "compile_regexp", lambda text: [searched.append(text), compiled_regexp(text)][1])
    offsets, numbers = PatternSet(leaves).matches(TextColumn(None, strings))
    found = [sorted(numbers[first:last].tolist()) for first, last in pairwise(offsets)]
    assert found == expected(leaves, strings)
    assert all(len(text) > 256 for text in searched) and searched
