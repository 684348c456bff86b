"""Patterns of EventBridge against a reading of their own: a few lines of Python that walk pattern and event."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers import from_eventbridge

MISSING = object()


def holds(matcher: Any, value: Any) -> bool:
    """Whether one value passes one matcher, as EventBridge's documentation says it."""
    if not isinstance(matcher, dict):
        return (value is not MISSING and type(matcher) is not bool and type(value) is not bool and _same(matcher, value)) or (
            isinstance(matcher, bool) and value is matcher
        )  # fmt: skip
    ((name, given),) = matcher.items()
    if name == "exists":
        return (value is not MISSING) == given
    if value is MISSING:
        return False
    if name == "anything-but":
        if isinstance(given, dict):
            ((inner, texts),) = given.items()
            return not any(holds({inner: text}, value) for text in (texts if isinstance(texts, list) else [texts]))
        return not any(_same(each, value) for each in (given if isinstance(given, list) else [given]))
    if name == "numeric":
        number = type(value) in (int, float)
        return number and all(_compared(value, *pair) for pair in zip(given[::2], given[1::2], strict=True))
    if not isinstance(value, str):
        return False
    if name == "cidr":
        try:
            return ipaddress.ip_address(value) in ipaddress.ip_network(given)
        except ValueError:
            return False
    if isinstance(given, dict):
        given, value = given["equals-ignore-case"].lower(), value.lower()
    if name == "wildcard":
        parts = re.split(r"(\\.|\*)", given)
        return (
            re.fullmatch("".join(".*" if p == "*" else re.escape(p[-1] if p[:1] == "\\" else p) for p in parts), value)
            is not None
        )
    return bool({
        "prefix": value.startswith(given), "suffix": value.endswith(given), "equals-ignore-case": value.lower() == given.lower(),
    }[name])  # fmt: skip


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, str) == isinstance(other, str) and type(other) is not bool and one == other


def _compared(value: float, operator: str, bound: float) -> bool:
    return {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound, "=": value == bound}[
        operator
    ]


def passes(pattern: dict[str, Any], event: Any) -> bool:
    for name, given in pattern.items():
        if name == "$or":
            if not any(passes(each, event) for each in given):
                return False
            continue
        value = event.get(name, MISSING) if isinstance(event, dict) else MISSING
        if isinstance(given, dict):
            if not passes(given, value):
                return False
        elif not any(holds(matcher, value) for matcher in given):
            return False
    return True


def at(event: Any, path: list[str]) -> list[Any]:
    """All values at a path, wherever lists are on the way."""
    if isinstance(event, list):
        return [value for each in event for value in at(each, path)]
    if not path:
        return [] if isinstance(event, dict) or event is None else [event]
    return at(event[path[0]], path[1:]) if isinstance(event, dict) and path[0] in event else []


def passes_with_lists(pattern: dict[str, Any], event: Any, root: Any = None, path: tuple[str, ...] = ()) -> bool:
    """As event-ruler's documentation says of arrays: what is said of one object holds of one object; a field that must not exist does
    nowhere."""
    root = event if root is None else root
    for name, given in pattern.items():
        value = event.get(name) if isinstance(event, dict) else None
        if isinstance(given, dict):
            objects = value if isinstance(value, list) and value else [value]
            if not any(passes_with_lists(given, each, root, (*path, name)) for each in objects):
                return False
        elif given == [{"exists": False}]:
            if at(root, [*path, name]):
                return False
        elif not any(holds(matcher, each) for matcher in given for each in at(value, [])):
            return False
    return True


PATTERNS: list[dict[str, Any]] = [
    {"source": ["aws.ec2"], "detail": {"state": ["running", "stopped"]}},
    {"detail": {"cpu": [{"numeric": [">", 0, "<=", 5]}]}},
    {"detail": {"cpu": [{"numeric": ["=", 5]}, "high"]}},
    {"detail": {"state": [{"anything-but": "running"}]}},
    {"detail": {"state": [{"anything-but": ["running", "stopped"]}]}},
    {"detail": {"cpu": [{"anything-but": [5, 90.5]}]}},
    {"detail": {"state": [{"anything-but": {"prefix": "r"}}]}},
    {"detail": {"state": [{"anything-but": {"suffix": ["ed", "g"]}}]}},
    {"detail": {"state": [{"anything-but": {"equals-ignore-case": ["RUNNING", "x"]}}]}},
    {"detail": {"state": [{"anything-but": {"wildcard": "*pp*"}}]}},
    {"source": [{"prefix": "aws."}], "detail": {"state": [{"exists": False}]}},
    {"detail": {"state": [{"exists": True}]}},
    {"source": [{"suffix": ".EC2"}, {"suffix": {"equals-ignore-case": ".S3"}}]},
    {"source": [{"prefix": {"equals-ignore-case": "AWS"}}]},
    {"source": [{"equals-ignore-case": "AWS.s3"}]},
    {"detail": {"ip": [{"cidr": "10.0.0.0/24"}]}},
    {"detail": {"path": [{"wildcard": "/a/*/b_\\*%*"}]}},
    {"source": ["aws.s3"], "$or": [{"detail": {"cpu": [90.5]}}, {"detail": {"ok": [True]}}]},
    {"detail": {"$or": [{"cpu": [{"numeric": ["<", 1]}]}, {"state": ["it's"]}]}},
    {"detail": {"ok": [True, 1]}},
    {"detail": {"ok": [False]}},
]
EVENTS: list[dict[str, Any]] = [
    {"source": source, "detail": {**detail, **more}}
    for source in ("aws.ec2", "AWS.S3", "aws.s3")
    for detail in ({}, {"state": "running"}, {"state": "stopped"}, {"state": 5}, {"state": True}, {"state": "it's"})
    for more in (
        {}, {"cpu": 5}, {"cpu": 5.0, "ok": True}, {"cpu": "5"}, {"cpu": 90.5, "ok": False}, {"cpu": -1, "ok": 1}, {"cpu": "high"},
        {"ip": "10.0.0.7", "cpu": True}, {"ip": "10.0.1.7"}, {"ip": "host"}, {"ip": 167772160},
        {"path": "/a/x/b_*%c"}, {"path": "/a/x/bb*%c"},
    )
] + [{"detail": {"state": "running"}}, {"source": 5}, {"source": "aws.s3", "detail": "none"}]  # fmt: skip


@pytest.mark.parametrize("engine", ["auto", "scan"])
def test_every_pattern_on_every_event(engine: str) -> None:
    report = from_eventbridge(PATTERNS)
    assert (report.rejections, len(report)) == ([], len(PATTERNS))
    index = MatchIndex(engine)
    assert index.add_many(**report.columns()).added == len(PATTERNS)
    found = [sorted(ids) for ids in index.match_many(EVENTS)]
    expected = [[place for place, pattern in enumerate(PATTERNS) if passes(pattern, event)] for event in EVENTS]
    assert found == expected
    assert {place for ids in expected for place in ids} == set(range(len(PATTERNS)))


@pytest.mark.parametrize("lists", [(), ["tags"], "tags"])
def test_resources_are_a_list_in_every_event(lists: Any) -> None:
    patterns = {
        "one": {"resources": ["arn:1"]},
        "prefix": {"resources": [{"prefix": "arn:"}]},
        "none": {"resources": [{"exists": False}]},
    }
    index = MatchIndex()
    index.add_many(**from_eventbridge(patterns, lists=lists).columns())
    assert index.match({"resources": ["x", "arn:1"]}) == ["one", "prefix"]
    assert index.match({"resources": ["arn:2"]}) == ["prefix"]
    assert index.match({"resources": []}) == index.match({}) == ["none"]
    (rule,) = from_eventbridge([patterns["one"]], lists=False)
    assert rule.expression == "resources = 'arn:1'"


def test_json_and_ids() -> None:
    report = from_eventbridge({"a": json.dumps(PATTERNS[0]), 7: PATTERNS[1]})
    assert [rule.id for rule in report] == ["a", 7]
    assert report.rules[0].expression == "source = 'aws.ec2' and detail.state in ('running', 'stopped')"


LISTED: list[dict[str, Any]] = [
    {"tags": ["a", 5]},
    {"tags": [{"numeric": [">", 3, "<", 5]}]},
    {"tags": [{"numeric": [">", 3]}]},
    {"tags": [{"prefix": "a"}]},
    {"tags": [{"suffix": {"equals-ignore-case": "B"}}, {"wildcard": "x*y"}]},
    {"tags": [{"equals-ignore-case": "AB"}]},
    {"tags": [{"cidr": "10.0.0.0/8"}]},
    {"tags": [{"anything-but": ["a", "ab"]}]},
    {"tags": [{"anything-but": {"prefix": "a"}}]},
    {"tags": [{"exists": True}]},
    {"tags": [{"exists": False}]},
    {"items": {"price": [5], "color": ["red"]}},
    {"items": {"price": [{"numeric": ["<", 5]}], "color": [{"anything-but": "red"}]}},
    {"items": {"color": ["red"], "gone": [{"exists": False}]}},
    {"items": {"parts": {"n": [1], "tags": ["a"]}}},
    {"items": {"gone": [{"exists": True}]}},
]
WITH_LISTS: list[dict[str, Any]] = [
    {},
    *(
        {"tags": tags}
        for tags in (
            "a", 5, [], ["x", "a"], [5], ["5"], [4, "AB"], [2, 9], ["xzy"], [None], ["10.1.2.3"], "10.1.2.3", ["host"],
            [True], "aB", [{"a": 1}],
        )
    ),
    *(
        {"items": items}
        for items in (
            {"price": 5, "color": "red"},
            [{"price": 5, "color": "red"}],
            [{"price": 5}, {"color": "red"}],
            [{"price": 4, "color": "red"}, {"price": 5, "color": "blue"}],
            [{"price": [1, 7], "color": ["red", "blue"]}],
            [{"color": "red", "gone": 1}, {"color": "red"}],
            [{"parts": {"n": 1, "tags": ["b", "a"]}}],
            [{"parts": [{"n": 1, "tags": ["b"]}, {"n": 2, "tags": "a"}]}, {"parts": [{"n": [0, 1], "tags": "a"}]}],
            [], 5, [7],
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("engine", ["auto", "scan"])
@pytest.mark.parametrize(
    "lists", [True, ["tags", "items", "items.price", "items.color", "items.parts", "items.parts.n", "items.parts.tags"]]
)
def test_fields_that_may_be_lists(engine: str, lists: Any) -> None:
    report = from_eventbridge(LISTED, lists=lists)
    assert (report.rejections, len(report)) == ([], len(LISTED))
    index = MatchIndex(engine)
    index.add_many(**report.columns())
    for event in WITH_LISTS:
        expected = [place for place, pattern in enumerate(LISTED) if passes_with_lists(pattern, event)]
        assert sorted(index.match(event)) == expected, event


def test_what_is_said_of_an_object_is_said_of_one_element() -> None:
    (rule,) = from_eventbridge([LISTED[11]], lists="items")
    assert rule.expression == "items.price = 5 and items.color = 'red' or exists(items, price = 5 and color = 'red')"
    deep: dict[str, Any] = {"a": [1]}
    for _ in range(8):
        deep = {"x": deep}
    assert "name the lists in lists=" in str(from_eventbridge([deep], lists=True).rejections[0])
    assert len(from_eventbridge([deep], lists=["x.x"])) == 1


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("{", "not JSON"),
        ({}, "object that is not empty"),
        ({"a": 5}, "a must be a list"),
        ({"a": []}, "a must be a list"),
        ({"a": [None]}, "null is the same as an absent field"),
        ({"a": [{"prefix": 5}]}, "a: prefix takes a text"),
        ({"a": [{"soundex": "x"}]}, "'soundex' is not known"),
        ({"a": [{"numeric": [">"]}]}, "operators and numbers in turn"),
        ({"a": [{"numeric": ["~", 5]}]}, "numeric has '~' 5"),
        ({"a": [{"cidr": "300.0.0.0/8"}]}, "is no network"),
        ({"a": [{"anything-but": [None]}]}, "takes texts or numbers"),
        ({"a": [{"anything-but": {"numeric": [">", 1]}}]}, "takes no numeric"),
        ({"a": [{"wildcard": "a**b"}]}, "two stars"),
        ({"a": [["x"]]}, "no value and no matcher"),
        ({"a": [{"numeric": [["<"], 5]}]}, "numeric has ['<'] 5"),
    ],
)
def test_what_cannot_be_expressed_is_reported_and_harms_no_other(pattern: Any, reason: str) -> None:
    report = from_eventbridge([pattern, PATTERNS[0]])
    assert len(report) == 1
    (rejection,) = report.rejections
    assert rejection.position == 0
    assert isinstance(rejection.error, RuleFormatError)
    assert reason in str(rejection)
    assert str(report).startswith("1 imported, 1 rejected\n#0 (0): EventBridge: ")


STATE_CHANGE: dict[str, Any] = {
    "detail-type": "Instance State-change Notification", "source": "aws.ec2", "time": "2017-10-02T16:24:49Z", "region": "us-east-1",
    "resources": ["arn:aws:ec2:us-east-1:1:instance/i-0"],
    "detail": {"c-count": 5, "d-count": 3, "x-limit": 301.8, "source-ip": "10.0.0.33", "state": "running"},
}  # fmt: skip
PEOPLE: dict[str, Any] = {
    "employees": [
        {"first": "John", "last": "Doe"},
        {"first": "Anna", "last": "Smith"},
        {"first": "Peter", "last": "Jones"},
    ]
}
DOCUMENTED: list[tuple[dict[str, Any], bool]] = [
    # In the form of event-ruler's own documentation, which says of each whether it matches these events.
    ({"resources": ["arn:aws:ec2:us-east-1:1:instance/i-0"], "detail": {"state": ["initializing", "running"]}}, True),
    ({"time": [{"prefix": "2017-10-02"}]}, True),
    ({"source": [{"suffix": "ec2"}]}, True),
    ({"source": [{"equals-ignore-case": "AWS.EC2"}]}, True),
    ({"source": [{"wildcard": "aws*2"}]}, True),
    ({"detail": {"state": [{"anything-but": "initializing"}]}}, True),
    ({"detail": {"x-limit": [{"anything-but": [100, 200, 300]}]}}, True),
    ({"detail": {"state": [{"anything-but": {"prefix": "run"}}]}}, False),
    (
        {
            "detail": {
                "c-count": [{"numeric": [">", 0, "<=", 5]}],
                "d-count": [{"numeric": ["<", 10]}],
                "x-limit": [{"numeric": ["=", 3.018e2]}],
            }
        },
        True,
    ),
    ({"detail": {"source-ip": [{"cidr": "10.0.0.0/24"}]}}, True),
    ({"detail": {"c-count": [{"exists": False}]}}, False),
    ({"detail": {"e-count": [{"exists": False}], "c-count": [{"exists": True}]}}, True),
    (
        {
            "source": ["aws.ec2"],
            "$or": [
                {"region": ["eu"]},
                {"region": ["us-east-1"], "$or": [{"time": ["x"]}, {"detail": {"d-count": [3]}}]},
            ],
        },
        True,
    ),
    ({"employees": {"first": ["Anna"]}}, True),
    ({"employees": {"first": ["Anna"], "last": ["Smith"]}}, True),
    ({"employees": {"first": ["Anna"], "last": ["Jones"]}}, False),
    ({"employees": {"first": ["Anna"], "middle": [{"exists": False}]}}, True),
    ({"employees": {"first": ["Anna"], "last": [{"exists": False}]}}, False),
]


def test_documented_patterns() -> None:
    report = from_eventbridge([pattern for pattern, _ in DOCUMENTED], lists=["resources", "employees"])
    assert (len(report), report.rejections) == (len(DOCUMENTED), [])
    index = MatchIndex()
    index.add_many(**report.columns())
    assert sorted(index.match({**STATE_CHANGE, **PEOPLE})) == [
        place for place, (_, holds) in enumerate(DOCUMENTED) if holds
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        {"a": {"b": 10**5000}},
        {"a": {5: [1]}},
        {"a": [{"b": [[[]]] * 40_000}] * 3},
        {"a": json.loads("[" * 150 + "]" * 150)},
    ],
)
def test_documents_that_are_too_large_or_strange_are_rejected(pattern: Any) -> None:
    report = from_eventbridge([pattern, PATTERNS[0]])
    assert (len(report), len(report.rejections)) == (1, 1)
