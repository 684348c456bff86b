"""Hypothesis strategies for terms, functions and lists: expressions as texts, and events that make them true, false and unknown.

`generators.py` has the predicates on plain attributes, systematically near their constants. Here values are drawn from few, so that they
often coincide. `exact` leaves out what DuckDB does differently (docs/language.md has the table).
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

__all__ = ["ON_NUMBERS", "ON_STRINGS", "on_scalars", "rich_events", "rich_texts", "typed_events"]

NUMBERS = ["0", "1", "2", "3", "-1", "0.5", "2.5", "10"]
STRINGS = [
    "''",
    "'a'",
    "'ab'",
    "'Ab'",
    "' b '",
    "'\u00e9'",
    "'a%'",
    "'i'",
    "'k'",
    "'\u212a'",
    "'\u03c3'",
    "'\u03c2'",
    "'\u0130'",
]
ODD_TEXTS = ["'\u00df'", "'\u1e9e'", "'ss'", "'\u017f'", "'s'"]
"""The upper case of \u00df is another in DuckDB."""
OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
MOST_NUMBERS = ["9223372036854775807", "-9223372036854775808", "1e300", "9007199254740993", "double 'inf'"]


def rich_texts(*, exact: bool = False) -> SearchStrategy[str]:
    """Expressions with terms and functions. `exact`: only such that DuckDB understands in the same way."""
    numbers = st.sampled_from(NUMBERS if exact else NUMBERS + MOST_NUMBERS)
    strings = st.sampled_from(STRINGS if exact else STRINGS + ODD_TEXTS)
    number_terms = st.recursive(
        st.sampled_from(["n1", "n2", "n3"])
        | numbers
        | st.sampled_from(["length(s1)", "len(l1)", "len(l2)", "list_max(l1)", "list_min(l1)"])
        | st.sampled_from(
            ["n1"] if exact else ["ip4(a1)", "ip6_upper(a1)", "ip6_lower(trim(a1))", "list_max(l1, 'number')"]
        ),
        lambda inner: st.one_of(
            _filled("({} {} {})", inner, st.sampled_from("+-*"), inner),
            _filled("-({})", inner),
            _filled("{}({})", st.sampled_from(["abs", "floor", "ceil", "round"]), inner),
            _filled("{}({}, {})", st.sampled_from(["coalesce", "least", "greatest"]), inner, inner),
            _filled("case when {} > {} then {} else {} end", inner, numbers, inner, inner),
            _filled("case ({}) when {} then {} when {} then 2 end", inner, numbers, inner, inner),
            _filled("if({} < {}, {}, {})", inner, inner, inner, numbers),
            _filled("({} {})", inner, st.sampled_from(["/ 2", "% 3", "% -2.5"])),
            _filled("mod({}, {})", inner, st.sampled_from(["3", "-2", "2.5"])),
            *(
                []
                if exact
                else [_filled("({} {} {})", inner, st.sampled_from("/%"), inner), _filled("round({}, 1)", inner)]
            ),
        ),
        max_leaves=4,
    )
    string_terms = st.recursive(
        st.sampled_from(["s1", "s2"]),
        lambda inner: st.one_of(
            _filled("{}({})", st.sampled_from(["lower", "upper", "trim", "ltrim", "rtrim"]), inner),
            _filled(
                "substr({}, {}, {})", inner, st.sampled_from(["1", "2", "-2", "0"]), st.sampled_from(["0", "1", "3"])
            ),
            _filled("substr({}, {})", inner, st.sampled_from(["1", "2", "-1", "0", "-3"])),
            _filled("({} || {})", inner, inner | strings),
            _filled("{}({}, {})", st.sampled_from(["concat", "coalesce", "least"]), inner, inner | strings),
            _filled("replace({}, 'a', {})", inner, strings),
        ),
        max_leaves=3,
    )
    predicates = st.one_of(
        _filled("{} {} {}", number_terms, st.sampled_from(OPERATORS), number_terms),
        _filled("{} {} {}", string_terms, st.sampled_from(OPERATORS), string_terms | strings),
        _filled("{} between {} and {}", number_terms, number_terms, number_terms),
        _filled("{} not in ({}, {})", string_terms, strings, string_terms),
        _filled("{} is {}null", number_terms | string_terms, st.sampled_from(["", "not "])),
        _filled(
            "{} {} {}",
            string_terms,
            st.sampled_from(["like", "not like", "ilike", "not ilike"]),
            st.sampled_from(["'a%'", "'%B'", "'_b'", "'%\u03c3%'", "'\u03a3'", "'\u212a%'", "'I'", "'\u0130'"]),
        ),
        _filled(
            "{}({}, {})",
            st.sampled_from(["starts_with", "ends_with", "contains"]),
            string_terms,
            strings | string_terms,
        ),
        _list_predicates(numbers, strings, exact),
        _as_values(_list_predicates(numbers, strings, exact) if exact else _holding_anything(numbers, strings)),
        st.sampled_from(["n1 > 1", "s1 = 'ab'", "b1", "t1 < t2", "(n1 > 1) = b1", "l1 is null", "l2 is not null"]),
        _time_predicates(),
        *([] if exact else [_on_elements(), _networks_and_places(), _with_now(), _patterns(string_terms)]),
    )
    return st.recursive(
        predicates,
        lambda inner: st.one_of(
            _filled("not ({})", inner), _filled("({} {} {})", inner, st.sampled_from(["and", "or"]), inner)
        ),
        max_leaves=4,
    )


def _filled(template: str, *parts: SearchStrategy[str]) -> SearchStrategy[str]:
    return st.tuples(*parts).map(lambda drawn: template.format(*drawn))


def _list_predicates(numbers: SearchStrategy[str], strings: SearchStrategy[str], exact: bool) -> SearchStrategy[str]:
    # What is absent on one of the sides is another matter for DuckDB's any and all; see the table in docs/language.md.
    left = "({1} is null or {0} is null or {0} {2} {3}({1}))" if exact else "{0} {2} {3}({1})"
    quantified = [
        _filled(left, values, st.just(name), st.sampled_from(OPERATORS), st.sampled_from(["any", "all"]))
        for values, name in (
            (numbers | st.sampled_from(["n1", "n2"]), "l1"),
            (strings | st.sampled_from(["s1", "lower(s2)"]), "l2"),
        )
    ]
    return st.one_of(
        *quantified,
        _filled("list_contains(l1, {})", st.sampled_from(["n1", "n2 + 1"])),
        _filled("list_contains({}, {})", st.sampled_from(["l2", "['a', 'ab']"]), st.sampled_from(["s1", "trim(s2)"])),
        _filled(
            "{}(l2, {})", st.sampled_from(["list_has_any", "list_has_all"]), st.sampled_from(["l3", "['a', null]"])
        ),
        _filled("list_contains(l1, {})", numbers),
        _filled("list_contains(l2, {})", strings),
        _filled("list_has_any(l2, [{}, {}])", strings, strings),
        _filled("list_has_all(l2, [{}, {}])", strings, strings),
        _filled(
            "len({}) {} {}",
            st.sampled_from(["l1", "l2", "o1"]),
            st.sampled_from(OPERATORS),
            st.sampled_from(["0", "1", "2"]),
        ),
    )


def _holding_anything(numbers: SearchStrategy[str], strings: SearchStrategy[str]) -> SearchStrategy[str]:
    return st.one_of(_list_predicates(numbers, strings, False), _on_elements(), _networks_and_places())


def _as_values(conditions: SearchStrategy[str]) -> SearchStrategy[str]:
    """The answer of a function of lists, networks or places is a value that is true, false or null, as any other is."""
    return _filled(
        "({}) {}",
        conditions,
        st.sampled_from(
            [
                "is null",
                "is not null",
                "= false",
                "= true",
                "!= b1",
                "in (true, null)",
                "not in (false, null)",
                "in (b1, false)",
            ]
        ),
    )


PARTS = [
    "year", "month", "day", "hour", "minute", "second", "quarter", "week", "dow", "isodow", "doy", "epoch", "millisecond", "isoyear",
    "yearweek", "decade", "century", "millennium", "era", "julian", "microsecond", "timezone",
]  # fmt: skip
UNITS = [
    "second", "minute", "hour", "day", "week", "month", "quarter", "year", "isoyear", "decade", "century", "millennium",
]  # fmt: skip


def _time_predicates() -> SearchStrategy[str]:
    part = st.sampled_from(PARTS)
    moment, operator = st.sampled_from(["t1", "t2"]), st.sampled_from(OPERATORS)
    bound = st.sampled_from(["timestamp '2024-05-01 10:30'", "date '2024-05-01'", "t1", "t2"])
    interval = st.sampled_from(
        [
            "'90 minutes'",
            "'1 day'",
            "'10 hours 30 minutes'",
            "'1 day 01:30:00'",
            "90 minute",
            "'10' hours",
            "1.5 seconds",
            "1 week",
        ]
    )
    with_months = st.sampled_from(
        [
            "'1 month'",
            "'-13 months 30 days'",
            "1 quarter",
            "'3' year",
            "'1.5 years -01:00:00'",
            "'1 decade'",
            "700 months",
        ]
    )
    return st.one_of(
        _filled("extract({} from {}) {} {}", part, moment, operator, st.sampled_from(["0", "3", "5", "10", "2024"])),
        _filled(
            "date_trunc('{}', {}) {} {}",
            st.sampled_from(UNITS),
            moment,
            operator,
            bound,
        ),
        _filled("{} {} interval {} {} {}", moment, st.sampled_from("+-"), interval | with_months, operator, bound),
        _filled("date_add({}, interval {}) {} {}", moment, with_months, operator, bound),
        _filled("{} {} {} - interval {}", moment, operator, st.sampled_from(["now()", "t1"]), with_months),
        _filled("t1 - t2 {} interval {}", operator, interval),
        _filled("date_part('{}', {}) = {}(t1)", part, moment, st.sampled_from(["year", "month", "hour", "dayofyear"])),
        st.sampled_from(["t1 < current_timestamp", "t1 < now() - interval 1 hour", "t2 >= current_date"]),
    )


def _patterns(string_terms: SearchStrategy[str]) -> SearchStrategy[str]:
    """Regular expressions, which DuckDB writes in another way, on terms."""
    pattern = ["^a", "(?i)^AB?$", "b$", "(?i)\u03c3|k", "", "[^a]", "^.$", "(?i)s", "a.*b|\u0130"]
    return _filled(
        "{} {}regexp '{}'", string_terms | st.just("a1"), st.sampled_from(["", "not "]), st.sampled_from(pattern)
    )


def _with_now() -> SearchStrategy[str]:
    """Where an answer depends on the moment: all moments of the events are long past."""
    return st.sampled_from(["t1 < now()", "if(t1 < now(), n1, n2) > 1", "(now() < t2) = b1", "exists(o1, t < now())"])


def _networks_and_places() -> SearchStrategy[str]:
    network = st.sampled_from(["10.0.0.0/8", "10.0.0.0/31", "0.0.0.0/0", "2001:db8::/32", "::1/128"])
    place = st.sampled_from(["52.52, 13.405", "0, 0", "-90, 180", "52.4, 13.06"])
    address = st.sampled_from(
        ["a1", "a1", "trim(a1)", "coalesce(a1, s1)", "substr(a1, 1, 8)", "replace(a1, 'host', '10.0.0.1')"]
    )
    spot = st.sampled_from(["n1, n2", "n1, n2", "n1 * 2, abs(n2)", "least(n1, n3), n2", "n1, n1", "-n2, length(s1)"])
    return st.one_of(
        _filled("ip_in({}, '{}')", address, network),
        _filled("ip_in({}, '{}', '{}')", address, network, network),
        _filled("geo_within({}, {}, {})", spot, place, st.sampled_from(["0", "30", "1500.5", "20100"])),
        _filled(
            "geo_in_box({}, {}, {})", spot, st.sampled_from(["-1, -1", "0, 170"]), st.sampled_from(["3, 3", "60, -170"])
        ),
        _filled(
            "geo_in_polygon({}, '{}')",
            spot,
            st.sampled_from(
                [
                    "POLYGON((0 0, 3 0, 0 3, 0 0))",
                    "POLYGON((-1 -1, 5 -1, 5 5, -1 -1))",
                    "POLYGON((-2 -2, 9 -2, 9 9, -2 9), (0.2 0.2, 2.2 0.2, 2.2 4, 0.2 4))",
                ]
            ),
        ),
    )


def _on_elements() -> SearchStrategy[str]:
    inside = st.recursive(
        st.sampled_from(
            [
                "n = 1",
                "n > 1",
                "s = 'ab'",
                "lower(s) = 'ab'",
                "n is null",
                "n < m",
                "list_contains(l, 2)",
                "exists(o, n = 1)",
                "element > 1",
                "exists(o, element = 7)",
                "n + m > 2",
                "if(t < now(), n, m) > 1",
            ]
        ),
        lambda inner: st.one_of(
            _filled("not ({})", inner), _filled("({} {} {})", inner, st.sampled_from(["and", "or"]), inner)
        ),
        max_leaves=3,
    )
    return _filled("exists(o1, {})", inside) | _filled("exists({}, {})", st.sampled_from(["l1", "l2"]), on_scalars())


ON_NUMBERS = ["element = 1", "element between 0 and 2", "element * 2 > 3", "element not in (1, 2.5)"]
ON_STRINGS = [
    "element like 'a%'",
    "element like '%b'",
    "element not ilike '%B'",
    "lower(element) = 'ab'",
    "element > 'a'",
    "length(element) = 1",
]


def on_scalars(texts: Sequence[str] = (*ON_NUMBERS, *ON_STRINGS)) -> SearchStrategy[str]:
    """Conditions on an element that is no object."""
    return st.recursive(
        st.sampled_from(texts),
        lambda inner: st.one_of(
            _filled("not ({})", inner), _filled("({} {} {})", inner, st.sampled_from(["and", "or"]), inner)
        ),
        max_leaves=3,
    )


# ------------------------------------------------------------------------------------------------------------------ events

PLAIN_NUMBERS: list[Any] = [0, 1, 2, 3, -1, 0.5, 2.5, 10]
ODD_NUMBERS: list[Any] = [2**63 - 1, -(2**63), 2**62, 1e300, float("inf"), float("-inf"), 2**53 + 1, 3.0, float("nan")]
PLAIN_STRINGS: list[Any] = [
    "",
    "a",
    "ab",
    "AB",
    " b ",
    "\u00e9b",
    "\u00c9",
    "ba%",
    "\u0130",
    "I",
    "\u03a3",
    "\u03c2",
    "K\u212a",
]
ODD_STRINGS: list[Any] = ["\u00df", "\u1e9e", "\u017f", "SS", "\u03c3", "\u212a", "a\0", "\U0001f600b"]
ADDRESSES = [
    "10.0.0.1",
    "10.0.0.2",
    "9.255.255.255",
    "255.255.255.255",
    "::1",
    "2001:db8::5",
    "2001:db9::",
    "host",
    "10.0.0.01",
    "",
]
MOMENTS = [
    datetime.datetime(2024, 5, 1), datetime.datetime(2024, 5, 1, 10, 30), datetime.datetime(1969, 12, 31, 23),
    datetime.datetime(2024, 1, 31, 7), datetime.datetime(2000, 2, 29),
]  # fmt: skip


def rich_events() -> SearchStrategy[dict[str, Any]]:
    """Events with values of every kind, often of the wrong one, and lists of mixed kinds."""
    numbers, strings = st.sampled_from(PLAIN_NUMBERS + ODD_NUMBERS), st.sampled_from(PLAIN_STRINGS + ODD_STRINGS)
    other = st.sampled_from([None, True, 5, "x", [], MOMENTS[0]])
    arrays = st.one_of(
        st.lists(st.sampled_from(PLAIN_NUMBERS), max_size=3).map(np.array),
        st.lists(st.integers(-1, 3), max_size=3).map(lambda given: np.array([given, given])),
        st.lists(strings, max_size=3).map(lambda given: np.array(given, object)),
        st.lists(st.sampled_from(PLAIN_STRINGS), max_size=3).map(lambda given: np.array(given, str)),
        st.lists(st.booleans(), max_size=2).map(np.array),
        st.lists(st.sampled_from(MOMENTS), max_size=2).map(lambda given: np.array(given, "datetime64[us]")),
    )
    element = st.one_of(numbers, strings, st.sampled_from([None, True, {"n": 1}, [1, "a"]]))
    objects = st.recursive(
        st.sampled_from(
            [
                None,
                {},
                {"n": 1},
                {"element": 2},
                {"n": 1, "m": 2, "s": "ab"},
                {"n": 2, "s": "AB", "l": [1, 2]},
                {"n": 2, "t": MOMENTS[1]},
                7,
            ]
        ),
        lambda inner: st.lists(inner, max_size=2).map(lambda elements: {"n": 3, "o": elements}),
        max_leaves=3,
    )
    return _events(
        numbers,
        strings,
        st.lists(element, max_size=4) | arrays,
        st.lists(element, max_size=4) | arrays,
        st.lists(objects, max_size=3),
        other,
    )


def typed_events() -> SearchStrategy[dict[str, Any]]:
    """Events that fit the columns of a table."""
    numbers, strings = st.sampled_from(PLAIN_NUMBERS), st.sampled_from(PLAIN_STRINGS)
    return _events(
        numbers, strings, st.lists(numbers, max_size=4), st.lists(strings, max_size=4), st.just([{"n": 1}]), st.none()
    )


def _events(
    numbers: SearchStrategy[Any],
    strings: SearchStrategy[Any],
    of_numbers: SearchStrategy[Any],
    of_strings: SearchStrategy[Any],
    of_objects: SearchStrategy[Any],
    other: SearchStrategy[Any],
) -> SearchStrategy[dict[str, Any]]:
    def field(values: SearchStrategy[Any]) -> SearchStrategy[Any]:
        return st.integers(0, 7).flatmap(lambda choice: other if choice == 0 else values)

    return st.fixed_dictionaries(
        {},
        optional={
            "n1": field(numbers), "n2": field(numbers), "n3": field(numbers), "s1": field(strings), "s2": field(strings),
            "b1": field(st.booleans()), "t1": field(st.sampled_from(MOMENTS)), "t2": field(st.sampled_from(MOMENTS)),
            "l1": field(of_numbers), "l2": field(of_strings), "l3": field(of_strings),
            "o1": field(of_objects), "a1": field(st.sampled_from(ADDRESSES)),
        },
    )  # fmt: skip
