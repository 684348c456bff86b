"""Sigma rules against a reading of their own: values become regular expressions, conditions are evaluated by Python."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import re
from fnmatch import fnmatchcase
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.importers import from_sigma

RULES = r"""
title: Whoami as a child of a shell
id: 11111111-aaaa-4bbb-8ccc-000000000001
status: test
level: high
date: 2024-05-01
logsource: {product: windows, category: process_creation}
tags: [attack.discovery, attack.t1033]
detection:
  selection_img:
    Image|endswith: ['\whoami.exe', '\who?mi.exe']
  selection_parent:
    ParentImage|contains: '\cmd'
    EventID: 1
  filter_main:
    User|contains: [SYSTEM, admin*svc]
  condition: all of selection_* and not 1 of filter_*
---
title: Encoded command
level: medium
detection:
  sel:
    - CommandLine|contains|all: [' -enc', powershell]
    - CommandLine|windash|contains: ' -EncodedCommand '
  condition: sel
---
title: Wide and base64
detection:
  a: {CommandLine|base64offset|contains: IEX}
  b: {CommandLine|wide|base64offset|contains: 'foo'}
  condition: a or b
---
title: Numbers, nulls, networks
detection:
  num: {EventID: [4624, 4625], Port|gte: 1024}
  none: {User: null}
  net: {Ip|cidr: [10.0.0.0/8, '::1/128']}
  there: {User|exists: true}
  condition: (num and net) or (none and not there and net)
---
title: Exact, cased and regular
detection:
  plain: {Name: 'A\*b'}
  cased: {Name|cased: 'Abc'}
  expression: {Name|re: '^x+y$'}
  folded: {Name|re|i: '^qq'}
  same: {Image|fieldref: ParentImage}
  starts: {Name|startswith: 'C:\\*z'}
  empty: {Name: ''}
  condition: 1 of them
---
title: Not
detection:
  sel: {Image: '*\a.exe'}
  _hidden: {Image: '*'}
  condition: not sel and not (_hidden and sel)
"""
EVENTS: list[dict[str, Any]] = [
    {},
    {"Image": r"C:\Windows\WHOAMI.EXE", "ParentImage": r"C:\x\CMD.exe", "EventID": 1},
    {"Image": r"C:\Windows\whoami.exe", "ParentImage": r"C:\x\cmd.exe", "EventID": "1", "User": "bob"},
    {"Image": r"C:\Windows\whoami.exe", "ParentImage": r"C:\x\cmd.exe", "EventID": 1, "User": r"NT\system"},
    {"Image": r"C:\Windows\whoami.exe", "ParentImage": r"C:\x\cmd.exe", "EventID": 1, "User": "Admin-1-svc"},
    {"Image": r"C:\Windows\whoxmi.exe", "ParentImage": r"C:\x\cmd.exe", "EventID": 1},
    {"Image": r"C:\Windows\whoami.exe", "ParentImage": r"C:\x\cmd.exe", "EventID": 2},
    {"CommandLine": "PowerShell -ENC abc"},
    {"CommandLine": "pwsh /encodedcommand x"},
    {"CommandLine": "pwsh \u2014EncodedCommand x"},
    {"CommandLine": "pwsh EncodedCommand x"},
    *({"CommandLine": "x" + base64.b64encode(b"-" * pad + b"IEX (foo)").decode()} for pad in range(4)),
    *({"CommandLine": base64.b64encode(b"-" * pad + "foo bar".encode("utf-16-le")).decode()} for pad in range(4)),
    {"EventID": 4624, "Port": 1024, "Ip": "10.1.2.3", "User": "x"},
    {"EventID": "4625", "Port": 80, "Ip": "10.1.2.3", "User": "x"},
    {"EventID": 4625, "Port": 5000, "Ip": "11.1.2.3"},
    {"Ip": "::1"},
    {"Ip": "host"},
    *({"Name": name} for name in ("a*B", "axb", "Abc", "abc", "xxy", "XXY", "QQ1", r"c:\hello z", "c:hello z", "")),
    {"Image": "Same", "ParentImage": "sAME"},
    {"Image": r"D:\A.exe"},
]


def passes(rule: dict[str, Any], event: dict[str, Any]) -> bool:
    detection = dict(rule["detection"])
    condition = detection.pop("condition")
    truths = {name: searched(given, event) for name, given in detection.items()}

    def several(found: re.Match[str]) -> str:
        names = [n for n in truths if (n[0] != "_" if found[2] == "them" else fnmatchcase(n, found[2]))]
        return str((all if found[1] == "all" else any)(truths[name] for name in names))

    text = re.sub(r"\b(1|any|all) of ([\w*]+)", several, condition)
    return bool(eval(text, {"__builtins__": {}}, truths))


def searched(given: Any, event: dict[str, Any]) -> bool:
    if isinstance(given, list):
        return any(searched(each, event) for each in given)
    return all(field_passes(*key.split("|"), value=value, event=event) for key, value in given.items())


def field_passes(name: str, *modifiers: str, value: Any, event: dict[str, Any]) -> bool:
    there = event.get(name)
    if "exists" in modifiers:
        return (there is not None) == value
    values = value if isinstance(value, list) else [value]
    return (all if "all" in modifiers else any)(one(modifiers, each, there, event) for each in values)


def one(modifiers: tuple[str, ...], value: Any, there: Any, event: dict[str, Any]) -> bool:
    if value is None or there is None:
        return value is None and there is None
    if "gte" in modifiers:
        return bool(there >= value)
    if "cidr" in modifiers:
        try:
            return ipaddress.ip_address(there) in ipaddress.ip_network(value)
        except ValueError:
            return False
    if "re" in modifiers:
        return re.search(value, there, re.IGNORECASE if "i" in modifiers else 0) is not None
    if "fieldref" in modifiers:
        return str(event.get(value)).lower() == there.lower()
    texts = [str(value)]
    if "base64offset" in modifiers:
        content = value.encode("utf-16-le" if "wide" in modifiers else "utf-8")
        # Of each way to begin, what is the same whatever stands before and after it.
        texts = [in_every_context(content, pad) for pad in range(3)]
    if "windash" in modifiers:
        texts = [re.sub(r"(?<= )-(?=\w)", dash, text) for text in texts for dash in "-/\u2013\u2014\u2015"]
    flags = re.DOTALL if "cased" in modifiers else re.DOTALL | re.IGNORECASE
    return any(re.fullmatch(expression(modifiers, text), str(there), flags) is not None for text in texts)


def in_every_context(content: bytes, pad: int) -> str:
    """The characters of an encoded content that are the same whatever stands before and after it."""
    contexts = [(first * pad, last) for first in (b"a", b"\xff") for last in (b"", b"zz", b"\0\0")]
    encoded = [base64.b64encode(before + content + after).decode() for before, after in contexts]
    places = range(min(map(len, encoded)))
    return "".join(encoded[0][place] for place in places if len({text[place] for text in encoded}) == 1)


def expression(modifiers: tuple[str, ...], text: str) -> str:
    parts = re.findall(r"\\[*?\\]|.", text, re.DOTALL)
    written = "".join(".*" if p == "*" else "." if p == "?" else re.escape(p[-1]) for p in parts)
    before = ".*" if {"contains", "endswith"} & set(modifiers) else ""
    return before + written + (".*" if {"contains", "startswith"} & set(modifiers) else "")


@pytest.mark.parametrize("engine", ["auto", "scan"])
def test_every_rule_on_every_event(engine: str) -> None:
    import yaml

    rules = list(yaml.safe_load_all(RULES))
    report = from_sigma(RULES)
    assert (report.rejections, len(report)) == ([], len(rules))
    index = MatchIndex(engine)
    index.add_many(**report.columns())
    names = [rule.get("id", rule["title"]) for rule in rules]
    expected = [[name for name, rule in zip(names, rules, strict=True) if passes(rule, event)] for event in EVENTS]
    assert [sorted(ids) for ids in index.match_many(EVENTS)] == [sorted(ids) for ids in expected]
    assert {name for ids in expected for name in ids} == set(names)


@pytest.mark.parametrize(
    "field",
    [{"a": 1}, {"a": [1, 2]}, {"a": "x"}, {"a|contains": "x"}, {"a|gt": 1}, {"a|neq": 1}, {"a|re": "x"}, {"a": True}, {"a|hour": 3}],
)  # fmt: skip
@pytest.mark.parametrize("lists", [False, True])
def test_of_a_selection_and_its_negation_one_holds_whatever_kind_the_value_is_of(
    field: dict[str, Any], lists: bool
) -> None:
    conditions = ["f", "not f"]
    rules = [{"title": each, "detection": {"f": field, "condition": each}} for each in conditions]
    index = MatchIndex()
    assert index.add_many(**from_sigma(rules, lists=lists).columns()).added == 2
    values = [
        1,
        2,
        "1",
        "x",
        "y",
        True,
        False,
        None,
        datetime.datetime(2024, 5, 1, 3),
        *([[], ["x"], [1]] if lists else []),
    ]
    assert all(len(index.match({"a": value})) == 1 for value in values)


def test_parts_of_a_timestamp() -> None:
    fields: list[dict[str, Any]] = [{"at|hour": [22, 23]}, {"at|hour|gte": 22}, {"at|month|neq": 5}]
    rules = [{"title": str(n), "detection": {"s": each, "condition": "s"}} for n, each in enumerate(fields)]
    index = MatchIndex()
    index.add_many(**from_sigma(rules).columns())
    moments = [datetime.datetime(2024, 5, 1, 22), datetime.datetime(2024, 6, 1, 3)]
    assert [index.match({"at": moment}) for moment in moments] == [["0", "1"], ["2"]]


def test_title_level_and_tags_go_with_the_rule() -> None:
    index = MatchIndex()
    index.add_many(**from_sigma(RULES).columns())
    (found,) = index.match_many([EVENTS[1]]).data()[:1]
    assert (found["title"], found["level"], found["date"]) == ("Whoami as a child of a shell", "high", "2024-05-01")
    assert found["logsource"] == {"product": "windows", "category": "process_creation"}
    assert index.subscriptions(tag="attack.t1033") == ["11111111-aaaa-4bbb-8ccc-000000000001"]


def test_what_is_too_long_for_data_is_left_out() -> None:
    rule = {"title": "t", "level": "low", "description": "x" * 5000, "detection": {"s": {"a": 1}, "condition": "s"}}
    assert from_sigma([rule]).rules[0].data == {"title": "t", "level": "low"}


def test_names_of_fields_and_keywords() -> None:
    rule = {"title": "k", "detection": {"words": ["Evil*word", 5], "s": {"Image": "A"}, "condition": "words and s"}}
    (found,) = from_sigma([rule], fields={"Image": "process.path"}, keywords="message")
    assert found.expression == "(message ilike '%Evil%word%' or message ilike '%5%') and lower(process.path) = 'a'"
    (other,) = from_sigma([rule], fields=str.lower, keywords="m")
    assert other.expression.endswith("lower(image) = 'a'")


@pytest.mark.parametrize(
    ("detection", "reason"),
    [
        ({"s": {"a": 1}}, "a detection with a condition"),
        ({"s": ["word"], "condition": "s"}, "has keywords"),
        ({"s": {"a|expand": "%x%"}, "condition": "s"}, "give the values of %x% in placeholders="),
        ({"s": {"a|expand": 5}, "condition": "s"}, "expand is a text"),
        ({"s": {"a|fieldref": 5}, "condition": "s"}, "fieldref names a field, not 5"),
        ({"s": {"a|soundex": "x"}, "condition": "s"}, "the modifier 'soundex' of a"),
        ({"s": {"a": 1}, "condition": "s | count() by b > 5"}, "the aggregation 'count() by b > 5'"),
        ({"s": {"a": 1}, "condition": "s and t"}, "names 't', and there is no such selection"),
        ({"s": {"a": 1}, "condition": "1 of t*"}, "names 't*', and there is no such selection"),
        ({"s": {"a": 1}, "condition": "s and (s"}, "unexpected 'end'"),
        ({"s": {"a": 1}, "condition": "2 of s*"}, "unexpected 's*'"),
        ({"s": {"a|re": "(?=x)"}, "condition": "s"}, "regexp"),
        ({"s": {"a|cidr": "x"}, "condition": "s"}, "'x' is no network"),
        ({"s": {"a|gt": "x"}, "condition": "s"}, "compares numbers"),
        ({"s": {"a": []}, "condition": "s"}, "a has no values"),
        ({"s": None, "condition": "s"}, "is empty"),
        ({"s": {"a|hour": "x"}, "condition": "s"}, "takes whole numbers"),
        ({"s": {"a|windash": " -a -b -c -d"}, "condition": "s"}, "more than 3 dashes"),
    ],
)
def test_what_cannot_be_expressed_is_reported(detection: Any, reason: str) -> None:
    report = from_sigma([{"title": "bad", "detection": detection}, "title: no\n  yaml: [", RULES])
    assert len(report) == 6
    assert [each.id for each in report.rejections] == ["bad", 1]
    assert reason in str(report.rejections[0])
    assert "not YAML" in str(report.rejections[1])


LISTED: dict[str, dict[str, Any]] = {
    "contains": {"tags|contains": "Ab"},
    "all": {"tags|contains|all": ["ab", "cd"]},
    "equal": {"tags": ["X", 5]},
    "re": {"tags|re": "^x"},
    "cidr": {"tags|cidr": "10.0.0.0/8"},
    "gt": {"tags|gt": 4},
    "null": {"tags": None},
    "there": {"tags|exists": True},
    "within": {"user.name": "Bob"},
}
WITH_LISTS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["null"]),
    ({"tags": []}, ["null"]),
    ({"tags": [None]}, ["null"]),
    ({"tags": "xab"}, ["contains", "re", "there"]),
    ({"tags": ["7", "xaby"]}, ["contains", "re", "there"]),
    ({"tags": ["AB", "CD"]}, ["contains", "all", "there"]),
    ({"tags": ["x"]}, ["equal", "re", "there"]),
    ({"tags": ["5"]}, ["equal", "there"]),
    ({"tags": [3, 5]}, ["equal", "gt", "there"]),
    ({"tags": ["10.1.1.1"]}, ["cidr", "there"]),
    ({"user": [{"name": "al"}, {"name": "bob"}]}, ["null", "within"]),
    ({"user": {"name": ["BOB"]}}, ["null", "within"]),
]


@pytest.mark.parametrize("engine", ["auto", "scan"])
def test_fields_that_may_be_lists(engine: str) -> None:
    rules = [
        {"title": title, "detection": {"f": field, "condition": condition}}
        for name, field in LISTED.items()
        for title, condition in ((name, "f"), (f"not {name}", "not f"))
    ]
    report = from_sigma(rules, lists=True)
    assert report.rejections == []
    index = MatchIndex(engine)
    index.add_many(**report.columns())
    for event, expected in WITH_LISTS:
        wanted = {*expected, *(f"not {name}" for name in LISTED if name not in expected)}
        assert set(index.match(event)) == wanted, event


@pytest.mark.parametrize("engine", ["auto", "scan"])
@pytest.mark.parametrize(
    ("field", "matching", "others"),
    [
        ({"a": "*"}, ["x", "", 5, 0.5, True, datetime.datetime(2024, 5, 1)], [None]),
        ({"a": ["x", "**"]}, ["y", 5], [None]),
        ({"a|startswith": "*"}, ["y", 5], [None]),
        ({"a": "1.5"}, [1.5, "1.5"], [1, 15, "1.50", None]),
        ({"a": "1.50"}, ["1.50"], [1.5, "1.5"]),
        ({"a|expand": r"\%x%x%"}, ["%xann"], ["annx", r"\%xann"]),
    ],
)
def test_values_of_every_kind(engine: str, field: dict[str, Any], matching: list[Any], others: list[Any]) -> None:
    rules = [{"title": each, "detection": {"f": field, "condition": each}} for each in ("f", "not f")]
    index = MatchIndex(engine)
    assert index.add_many(**from_sigma(rules, placeholders={"x": "ann"}).columns()).added == 2
    assert [index.match({"a": value}) for value in matching] == [["f"]] * len(matching)
    assert [index.match({"a": value}) for value in others] == [["not f"]] * len(others)


def test_placeholders() -> None:
    rule = {"title": "t", "detection": {"s": {"User|expand": r"%domain%\\%admins%"}, "condition": "s"}}
    (found,) = from_sigma([rule], placeholders={"domain": "CORP", "admins": ["ann", "b*"]})
    index = MatchIndex()
    index.add(found.id, found.expression)
    users = [r"corp\Ann", r"CORP\bob", r"corp\cy", "%domain%"]
    assert [bool(index.match({"User": user})) for user in users] == [True, True, False, False]
    too_many = from_sigma([rule], placeholders={"domain": ["d"] * 200, "admins": ["a"] * 200})
    assert "more than 10000 values" in str(too_many.rejections[0])


@pytest.mark.parametrize(
    ("modifiers", "expected"),
    [
        ("fieldref", [0, 4]),
        ("fieldref|startswith", [0, 1]),
        ("fieldref|endswith", [0, 2]),
        ("fieldref|contains", [0, 1, 2, 3]),
        ("fieldref|contains|cased", [3]),
    ],
)
def test_a_field_is_compared_with_another(modifiers: str, expected: list[int]) -> None:
    rules = [
        {"title": condition, "detection": {"s": {f"a|{modifiers}": "b"}, "condition": condition}}
        for condition in ("s", "not s")
    ]
    index = MatchIndex()
    index.add_many(**from_sigma(rules).columns())
    pairs = [("AB", "ab"), ("abc", "AB"), ("xAb", "aB"), ("xaby", "ab"), (5, 5), (None, "a"), ("a", None), ("a", 5)]
    found = [index.match({"a": one, "b": other}) for one, other in pairs]
    assert found == [["s"] if place in expected else ["not s"] for place in range(len(pairs))]


CLOUD = """
title: A database that everybody can reach is restored
detection:
  selection:
    eventSource: rds.example.com
    responseElements.publiclyAccessible: 'true'
    eventName: [RestoreFromSnapshot, '7']
  condition: selection
---
title: Root user
detection:
  selection_user: {userIdentity.type: Root}
  selection_event: {eventType: ServiceEvent}
  condition: selection_user and not selection_event
---
title: Sign in
detection:
  selection: {eventName: GetToken}
  filter_main_console: {userAgent|contains: 'Jersey/${project.version}'}
  condition: selection and not 1 of filter_main_*
---
title: Many
correlation: {type: event_count, timespan: 5m}
---
title: Counted
detection:
  selection: {eventName: List}
  timeframe: 1h
  condition: selection | count() > 5
"""
"""In the form of public rules for cloud logs."""


def test_rules_for_cloud_logs() -> None:
    report = from_sigma(CLOUD)
    assert (len(report), [each.id for each in report.rejections]) == (3, ["Many", "Counted"])
    index = MatchIndex()
    index.add_many(**report.columns())
    restored = {
        "eventSource": "RDS.example.com",
        "eventName": "restorefromsnapshot",
        "responseElements": {"publiclyAccessible": True},
    }
    events: list[dict[str, Any]] = [
        restored,
        {**restored, "eventName": 7, "responseElements": {"publiclyAccessible": "True"}},
        {**restored, "responseElements": {"publiclyAccessible": False}},
        {"userIdentity": {"type": "Root"}},
        {"userIdentity": {"type": "Root"}, "eventType": "ServiceEvent"},
        {"eventName": "GetToken", "userAgent": "curl"},
        {"eventName": "GetToken", "userAgent": "x Jersey/${project.version} y"},
        {"eventName": "GetToken"},
    ]
    database, root, sign_in = (rule.id for rule in report)
    assert [index.match(event) for event in events] == [
        [database],
        [database],
        [],
        [root],
        [],
        [sign_in],
        [],
        [sign_in],
    ]
