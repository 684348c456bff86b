"""Texts compiled together by kernels mean what they mean when they are parsed one by one, and are refused for the same reasons."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ray_pubsub
from ray_pubsub.columns.texts.text_compiler import compile_texts
from ray_pubsub.errors import RayPubSubError
from ray_pubsub.index.bulk import text_batch
from ray_pubsub.language.printer import write
from ray_pubsub.settings import Limits
from tests.examples import scaled
from tests.generators import cases
from tests.rich_expressions import rich_events, rich_texts

GOOD = [
    "  x\t=\n5\r\f\v",
    'x=5 and(y=6)or"z"=1',
    "X = 5 AnD y In (1,2 ,\t3)",
    "x in (1, 2, null) or x not in (1, null) or x = null",
    '"a ""quoted"" name" = 1 and `b``c`.d > 2 or "x"."y" is null',
    "a . b = 1 and a.b.c != 2",
    "x = 'it''s' and y = '' and z = '\u00e9\U0001f600\n'",
    "x = 9223372036854775807 or x = -9223372036854775808 or x > 1e300 or x < -1.5e-7",
    "x >= 5. and y < .5 and z = - 3 and w = + 4.25e1 and v = 0.1 and u != 0.30000000000000004",
    "x = 00012 or x = 1234567890123456789 or x = 123456789012345678.5",
    "t > timestamp '2024-02-29 12:30:00' and t < date '2025-01-01' or t in (timestamp '2024-01-01', date '2024-01-02')",
    "x = double 'inf' or x != double '-inf'",
    "timestamp = 5 and date in (1, 2) and double is null and escape = 'x'",
    "5 < x and 'a' = y and true = b and null = c and 3 <> d and 4 == e",
    "not not not x = 1 and not (y = 2 or not z)",
    "((((x = 1)))) or ((y))",
    "s like 'a%' or s like '%a' or s like 'a!%%' escape '!' or s not like '_' or s like '' or s like '%' or s rlike '^a+$'",
    "s like 'abc' escape ''",
    "x between 1 and 5 and x not between 2 and 3 or s between 'a' and 'b' or y between null and 3 or z between 5 and 1",
    "x > 5 and x > 7 and x <= 9 and x != 8 and x != 8.5",
    "x = 1 and x = 2",
    "x is null or x = 5",
    "x is null and x is not null or true",
    "true",
    "false or null",
    "b and not c and b = true and d != false and e in (true, false) and f not in (true)",
    "x = 1 or x = 'a' or x = true or x > 7",
    "s ilike '%A' or S iLike 'a_' and s not ilike 'IT''S'",
    "s ilike 'AB%' or a.b ilike 'a!%%' escape '!' or s not ilike '%A%' and s like 'A'",
    "ilike = 5 and ilike ilike 'x' or s ilike '\u00c9\U0001f600%'",
    "\u00e9t\u00e9 = 1 and x$ = 2 and _y = 3",
    " and ".join(f"(a{number} = 1 or b{number} = 2)" for number in range(12)),
    " or ".join(f"(a{number} = 1 and (b{number} = 2 or c like '%{number}%'))" for number in range(40)),
    "not (" + " or ".join(f"(c like '%{number}%' and d not like '%{number}%')" for number in range(20)) + ")",
]
TERMS = [
    "lower(s) = 'a' and lower ( s ) in ('a', 'b') or LOWER(s) != 'ab'",
    "length(s) > 1 and 3 >= length(s) or upper(s) like 'A%' or trim(s) ilike 'A%'",
    "x + y > 5 and (x) = 5 or ((x)) = 4 or (x + 1) * 2 <= 12",
    "-x < 3 and - x between -5 and 5 or 2 * x + 1 in (5, 7, null)",
    "not (x) = 5 and not (y % 3) in (1, 2)",
    "(x = 5 or y = 6) and ((x = 5) or (y - 1) > 2) and (((z)))",
    "case when x > 1 and y < 3 then 1 else 2 end = 1 or case x when 5 then y end is null",
    "(case when x > 1 or y < 3 then 'it''s' else \"c\" end || 'and') like '%and' and x = 1",
    "(x = 1) is null or (x = 1 or y = 2) = true",
    "s || c like '%a' and coalesce(s, 'none') is not null and coalesce(x, y, 0) != 0",
    "\u00e9t\u00e9 = 1 or \u00e9t\u00e9 is null and x = 5",
    "extract(hour from t) = 0 and date_trunc('day', t) = date '2024-01-01'",
    "s like '\u00e9!%' and end = 5 and case = 4 and length(case) > 1",
    "lower(s) ilike 'A%' and lower(s) = 'AB' or upper(s) = 'ab'",
]
CALLED = [
    "list_contains(tags, 'a') and x = 5 or not list_contains ( tags , 'b' ) and not (list_has_any(tags, ['a', 'c']) or x > 3)",
    "exists(items, price < 5 and not (color = 'red' or n in (1, 2))) and (x = 1 or exists(tags, element like 'a%'))",
    "not exists(items, exists(parts, n > 1)) or 'a' = any(tags) and 1 < all(l1) or not 'a' != any(tags)",
    "ip_in(src, '10.0.0.0/8', '2001:db8::/32') or not ip_in(src, '10.1.0.0/16') and x = 5",
    "geo_within(x, y, 1.5, 2, 300) or geo_in_box(x, y, 0, 0, 5, 5) and not geo_in_polygon(x, y, 'POLYGON((0 0, 9 0, 0 9, 0 0))')",
    "x < y and not x >= z or x in (1, y, z) and x not between y and 5 or length(s) = x",
    "starts_with(s, 'a') or not ends_with(s, '%') and contains(s, '_') or starts_with(s, '\u00e9') and not contains(s, 'it''s')",
    "list_has_all(tags, ['a', 'b', 'a']) or not list_has_all(tags, ['a']) or len(tags) = 2 and list_contains(tags, s)",
    "(list_contains(tags, 'a')) is null or (list_contains(tags, 'b') or x = 5) = true or x = 5 and y in (2, null)",
    "not (not (not list_contains(tags, null) or not list_has_any(tags, [null])) and list_contains(['a', 'b'], s))",
    " and ".join(
        f"(a{number} = 1 or list_contains(tags, 't{number}') or not exists(items, n = {number}))" for number in range(9)
    ),
]
BAD = [
    "", " ", "x", "x =", "x = 5 -- comment", "x = 5 /* comment */", "# x = 5", "(x = 5", "x = 5)", "x = 5 y = 6", "x in ()",
    "x in (1, 'a')", "x = 'open", '"open = 1', '"" = 1', "x = 5a", "x=5and y=6", "x = 1.2.3", "x = 1e", "x = 99999999999999999999",
    "x = 1e999", "x = timestamp 'never'", "x = date '2024-13-01'", "x = double 'nan'", "x = double 'much'", "x like 5",
    "x regexp '('", "x like 'a!' escape '!'", "x like 'a' escape 'ab'", "x between 1", "x between 1 and 'a'", "x not 5", "x is 5",
    "and", "x and", "x = y", "5", "'a'", "5 = 5", "5 in (5, 6)", "x = 5;", "x.5 = 1", "a. = 1", "a.in = 1", "x = \ud800",
    "x = '\ud800'", "x = \u0661", "x\u00a0= 5", "x = 5\x1c", "x =! 5", "x = - - 5", "not", "x not in", "is null", "escape 'a' = 5",
    "x == = 5", "x ilike 5", "ilike 'a'", "lower(x) = 5", "length(x) = 'a'", "lower(x", "lower(x)) = 'a'", "nosuch(x) = 5",
    "(x and y) > 5", "length(x) like 'a'", "x + y like 'a'", "length(x) ilike 'a'", "lower(x) ilike 5", "any(x) = 5 = 5",
    "(x) (y) = 5", "x y = 5", "x + = 5", "(x or y + 1) = 5", "5 + 'a' = x", "lower('A') = 5", "[1, 2] = 5", "case when x then 1 = 5",
    "x || y between 1 and 2", "(x = 5", "((x) = 5", "x\u00a0and\u00a0y = 5", "lower(x) between 'a'", "lower(x) = 'a' 'b'",
    "(x regexp '(') = true", "false > (x = 1 or x not like 'a!' escape '!')", "(ip_in(x, '10.0.0./8')) is null",
    "x + 99999999999999999999 = 1", "x ilike 'a!' escape '!'", '"\0x" = 1', '"\0lower(x)" = 1', 5, None, b"x = 5",
]  # fmt: skip


@pytest.fixture(autouse=True)
def always_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_batch, "TEXTS_FOR_KERNELS", 1)
    monkeypatch.setattr(text_batch, "TEXTS_TO_LOAD_KERNELS", 1)
    monkeypatch.setattr(text_batch, "LONG_TEXT", 0)


def outcome(text: Any, limits: Limits | None = None) -> tuple[str, str] | None:
    """What one text alone is refused with."""
    index = ray_pubsub.MatchIndex(engine="scan", limits=limits)
    try:
        index.add(1, text)
    except RayPubSubError as error:
        return type(error).__name__, str(error)
    return None


def outcomes(texts: list[Any], limits: Limits | None = None) -> list[tuple[str, str] | None]:
    report = ray_pubsub.MatchIndex(limits=limits).add_many(range(len(texts)), texts)
    errors = {each.position: (type(each.error).__name__, str(each.error)) for each in report.rejections}
    return [errors.get(place) for place in range(len(texts))]


def check_equal_to_scan(
    texts: list[str], events: list[dict[str, Any]], limits: Limits | None = None, *, ignore_case: bool = False
) -> None:
    together, scan = (
        ray_pubsub.MatchIndex(engine, limits=limits, ignore_case=ignore_case) for engine in ("auto", "scan")
    )
    assert not together.add_many(range(len(texts)), texts).rejections
    scan.add_many(range(len(texts)), texts)
    assert [sorted(found) for found in together.match_many(events)] == [
        sorted(found) for found in scan.match_many(events)
    ]


def test_most_texts_are_read_by_the_kernels() -> None:
    for ignore_case in (False, True):
        texts = GOOD + TERMS + CALLED
        assert [texts[place] for place in compile_texts(texts, Limits(), ignore_case=ignore_case).left.tolist()] == []


def test_errors_are_those_of_the_grammar() -> None:
    called = [
        "list_contains(tags)",
        "exists(items, n ** 5)",
        "ip_in(x, '10.0.0.1/8')",
        "5 = any(x",
        "x < y <",
        "list_contains(tags, 'a'",
    ]
    bad = [*BAD, *called, *(f"x = 1 and (y = 2 or {text})" for text in called)]
    texts = [text for pair in zip(bad, (GOOD + CALLED) * 4, strict=False) for text in pair]
    assert outcomes(texts) == [outcome(text) for text in texts]


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(text_length=10), "x = 123456"),
        (Limits(nesting_depth=3), "((x = 1) or (y = 2 and (z = 3 or not w)))"),
        (Limits(nesting_depth=4), "not not not x = 1"),
        (Limits(leaves=2), "x = 1 or y = 2 or z"),
        (Limits(leaves=3), "x = 1 or y in (1, z) or list_contains(z, 1)"),
        (Limits(leaves=2), "x = 1 or exists(y, z = 1 or w = 1 and v = 1)"),
        (Limits(nesting_depth=4), "x = 1 or not exists(y, z = 1 or w = 1 and v = 1)"),
        (Limits(nesting_depth=3), "not (x = 1 or exists(y, not z = 1))"),
        (Limits(set_size=2), "x = 1 or list_has_any(y, [1, 2, 3])"),
        (Limits(word_length=5), "x = 1 or list_contains(abcdef, 1)"),
        (Limits(set_size=2), "x in (1, 2, 3)"),
        (Limits(pattern_length=3), "s like 'abcd'"),
        (Limits(pattern_length=3), "s like 'ab\u00e9'"),
        (Limits(pattern_length=3), "s regexp 'abcd'"),
        (Limits(word_length=5), "abcdef = 1"),
        (Limits(word_length=5), "a.b.c.d = 1"),
        (Limits(word_length=5), "x = 123456"),
        (Limits(word_length=5), "x = -1.2345"),
    ],
)
def test_limits_are_those_of_the_grammar(limits: Limits, text: str) -> None:
    shorter = ["x = 1", text[:-1], text, text.replace("1", "2"), text + " "]
    assert outcomes(shorter, limits) == [outcome(each, limits) for each in shorter]


def test_hand_picked_texts_match_as_the_scan_does() -> None:
    numbers = [
        -3,
        0,
        0.1,
        1,
        2,
        2.5,
        4,
        5,
        5.0,
        6,
        7.5,
        8,
        8.5,
        9,
        12,
        42.5,
        2**63 - 1,
        -(2**63),
        1e300,
        float("inf"),
        1234567890123456789,
    ]
    values = [*numbers, "A", "aB", "a%C", "IT's", "\u00e9\U0001f600"]
    values += ["", "a", "aa", "a%", "b", "it's", "3", "\u00e9\U0001f600\n", True, False, None]
    names = [
        "x",
        "y",
        "z",
        "w",
        "s",
        "b",
        "c",
        "d",
        "e",
        "u",
        "v",
        "a.b",
        "a.b.c",
        'a "quoted" name',
        "b`c.d",
        "x.y",
        "timestamp",
        "date",
        "c3",
        "\u00e9t\u00e9",
        "end",
        "case",
    ]
    names += [f"{letter}{number}" for letter in "ab" for number in range(12)]
    random_ = random.Random(1)
    events = [{name: random_.choice(values) for name in names if random_.random() < 0.8} for _ in range(150)]
    lists = [[], ["a"], ["b", "a", 1], ["c", None], [2, 5], "a", None]
    items = [[], [{"price": 3, "color": "RED", "n": 4}], [{"parts": [{"n": 2}]}, {"n": 1, "price": 1}], 5]
    for event in events:
        event |= {"tags": random_.choice(lists), "l1": random_.choice(lists), "items": random_.choice(items)}
        event["src"] = random_.choice(["10.1.2.3", "10.2.0.0", "2001:db8::1", "::1", "x", 5])
    for texts in (GOOD + TERMS, CALLED):
        for limits in (None, Limits(clauses=1)):
            check_equal_to_scan(texts, events, limits)
            check_equal_to_scan(texts, events, limits, ignore_case=True)


def test_alternatives_that_always_hold_or_never() -> None:
    """In a conjunctive form, what admits everything or nothing is left out."""
    parts = [f"(a{number} = 1 or b{number} = 2 or c like '%{number}%')" for number in range(9)]
    odd = [
        "(x is null or x is not null or a1 = 1)",
        "(s = 'a' and s = 'b' or a1 = 1)",
        "s < '' and s > 'a'",
        "not (s >= '' or s < '')",
    ]
    odd += ["(x is null and x is not null or s < '')", "(s like '%a%' and not s like '%a%')"]
    texts = [" and ".join([*parts, each]) for each in odd] + [
        " and ".join([*parts, *odd[:2]]),
        " and ".join([odd[0]] * 3),
    ]
    assert len(compile_texts(texts, Limits()).left) <= 1
    random_ = random.Random(2)
    names = [f"{letter}{number}" for letter in "ab" for number in range(9)]
    events = [
        {name: random_.choice((1, 2)) for name in names} | {"c": "0123456789"[random_.randrange(9) :], "s": random_.choice(("", "a", "b"))}
        for _ in range(60)
    ]  # fmt: skip
    check_equal_to_scan(texts, events)


@given(st.lists(cases(), min_size=1, max_size=8), st.sampled_from([1, 4, 64]))
@settings(max_examples=scaled(30))
def test_any_texts_match_as_the_scan_does(found: list[Any], clauses: int) -> None:
    events = [event for case in found for event in case.events]
    check_equal_to_scan([write(case.tree) for case in found], events, Limits(clauses=clauses))


@given(
    st.lists(rich_texts(), min_size=1, max_size=8), st.lists(rich_events(), max_size=5), st.booleans(), st.booleans()
)
@settings(max_examples=scaled(40))
def test_texts_of_terms_match_as_the_scan_does(
    texts: list[str], events: list[dict[str, Any]], ignore_case: bool, joined: bool
) -> None:
    texts += [f"n1 = 1 or ({text}) and not ({text}) or s1 like 'a%'" for text in texts if joined]
    check_equal_to_scan(texts, events, ignore_case=ignore_case)


def test_no_events_match_nothing() -> None:
    index = ray_pubsub.MatchIndex()
    index.add(1, "s like '%a%'")
    assert len(index.match_many([])) == 0


def test_nested_texts_match_as_the_scan_does() -> None:
    random_ = random.Random(3)
    texts = [nested(random_, random_.choice([1, 3, 8, 20, 50])) for _ in range(300)]
    events = [
        {
            **{f"n{number}": random_.randrange(5) for number in range(4) if random_.random() < 0.9},
            **{
                f"s{number}": random_.choice("012a") * random_.randint(1, 2)
                for number in range(3)
                if random_.random() < 0.9
            },
        }
        for _ in range(60)
    ]
    for clauses in (1, 64):
        check_equal_to_scan(texts, events, Limits(clauses=clauses))


def nested(random_: random.Random, leaves: int) -> str:
    if leaves == 1:
        number, text, value = f"n{random_.randrange(4)}", f"s{random_.randrange(3)}", random_.randrange(5)
        return random_.choice(
            [
                f"{number} {random_.choice(['=', '!=', '<', '>='])} {value}", f"{number} not between {value} and 3",
                f"{number} in ({value}, 1)", f"{number} not in ({value}, 2)", f"{text} like '%{value}%'", f"{text} not like '{value}_'",
                f"{text} in ('{value}', 'a')", f"{text} < '{value}'", f"{text} is null", f"not {text} = '{value}'",
                "true", f"{number} = null",
            ]
        )  # fmt: skip
    first = random_.randint(1, leaves - 1)
    joined = random_.choice([" and ", " or "]).join((nested(random_, first), nested(random_, leaves - first)))
    return random_.choice([f"({joined})", f"({joined})", f"not ({joined})"])


def test_ids_that_come_twice_and_texts_that_are_refused() -> None:
    index = ray_pubsub.MatchIndex()
    index.add_many(["a", "b"], ["x = 1", "x = 1 or y = 1"])
    report = index.add_many(
        ["b", "c", "b", 1.5, "d"], ["x = 2", "x =", "x = 3 or y = 3", "x = 1", "x = 1"], removing=["a"]
    )
    assert [(each.position, each.id) for each in report.rejections] == [(1, "c"), (3, 1.5)]
    assert report.added == 2
    assert [index.match({"x": value}) for value in (1, 2, 3)] == [["d"], [], ["b"]]
    assert index.expression("b") == "x = 3 or y = 3"
    index.add("b", "x = 4 or y = 4")
    with pytest.raises(RayPubSubError):
        index.add("g", "x =")
    assert [index.match({"x": value}) for value in (3, 4)] == [[], ["b"]]
    with pytest.raises(RayPubSubError):
        index.add_many(["e", "f"], ["x = 1", "x ="], atomic=True)
    assert sorted(index) == ["b", "d"]


@pytest.mark.parametrize("number", [2**63, 2**63 + 5, 10**18, 2**63 - 1, 10**19, 10**25])
@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_of_nineteen_digits_and_more(number: int, sign: str) -> None:
    """Those that fit 64 bits are exact, the others are refused; 2**63 overflows to a number that looks short."""
    written = f"{sign}{number}"
    fits = -(2**63) <= int(written) < 2**63
    compiled = compile_texts([f"x in (1, {written})", f"x = 000{written}" if not sign else "x = 1"], Limits())
    together, alone = ray_pubsub.MatchIndex(), ray_pubsub.MatchIndex("scan")
    assert together.add_many(["a"], [f"x in (1, {written})"]).added == fits
    if fits:
        alone.add("a", f"x in (1, {written})")
        for value in (int(written), max(-(2**63), int(written) - 1), -(2**63), 0, 1):
            assert together.match({"x": value}) == alone.match({"x": value})
    else:
        assert 0 in compiled.left.tolist()
