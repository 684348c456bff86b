"""CESQL: expressions in the form of its specification's examples, with the answers that the specification gives."""

from __future__ import annotations

from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.importers import from_cesql

EVENT: dict[str, Any] = {
    "id": "3", "source": "https://example.com/a", "type": "com.example.order%", "subject": "Große Straße", "hop": 7, "ttl": -2, "ok": True,
    "off": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("type = 'com.example.order%'", True),
        ('type = "com.example.order%"', True),
        ("subject = 'it\\'s'", False),
        ("source LIKE '%example%' AND hop > 5", True),
        ("type LIKE 'com._xample.%\\%'", True),
        ("type LIKE 'com.example.order\\_'", False),
        ("type NOT LIKE 'com%'", False),
        ("EXISTS subject", True),
        ("NOT EXISTS other", True),
        ("EXISTS other", False),
        ("other = 'x'", False),
        ("hop IN (1, 7, 9)", True),
        ("type NOT IN ('a', 'b')", True),
        ("hop + 3 * 2 = 13", True),
        ("(hop + 3) * 2 = 20", True),
        ("hop / 2 = 3", True),
        ("-hop / 2 = -3", True),
        ("hop % 4 = 3", True),
        ("-hop % 4 = -3", True),
        ("hop - 3 - 2 = 2", True),
        ("hop - (3 - 2) = 6", True),
        ("hop / 0 = 0", False),
        ("-ttl = 2", True),
        ("hop <> 7", False),
        ("hop != 8 and hop <= 7 and hop >= 7 and hop < 8", True),
        ("ok", True),
        ("NOT ok", False),
        ("ok XOR off", True),
        ("ok XOR ok", False),
        ("ok XOR (hop = 7) XOR ok", True),
        ("(hop = 1 OR ok) AND (off OR hop = 7)", True),
        ("NOT (hop = 1 OR off)", True),
        ("TRUE", True),
        ("false OR ok", True),
        ("ok = TRUE", True),
        ("LENGTH(subject) = 12", True),
        ("LOWER(subject) LIKE 'große%'", True),
        ("UPPER(id) = '3' AND ABS(ttl) = 2", True),
        ("TRIM('  a ') = 'a'", True),
        ("CONCAT(id, '-', type) = '3-com.example.order%'", True),
        ("CONCAT_WS('/', id, 'b', id) = '3/b/3'", True),
        ("LEFT(type, 3) = 'com'", True),
        ("RIGHT(type, 6) = 'order%'", True),
        ("RIGHT(id, 6) = '3'", True),
        ("SUBSTRING(type, 5, 7) = 'example'", True),
        ("SUBSTRING(type, -6) = 'order%'", True),
        ("SUBSTRING(type, 0) = ''", True),
        ("SUBSTRING(type, hop - 7, 2) = ''", True),
        ("SUBSTRING(type, hop - 6, 3) = 'com'", True),
        ("EXISTS SOURCE AND Hop = 7", True),
        ("--hop = 7", True),
        ("CONCAT() = '' AND CONCAT_WS(',') = ''", True),
        ("CONCAT(id, '\\c') LIKE '_\\c'", True),
        ("CONCAT(id, '\\c') LIKE '3\\_'", False),
        # Conditions as values.
        ("(hop = 7) = (ttl = -2)", True),
        ("(hop = 1) = (ttl = -2)", False),
        ("(other = 1) = (ttl = -2)", False),
        ("type IN ('x') = FALSE", True),
        ("hop IN (7) = TRUE", True),
        ("CONCAT(EXISTS other, '!') = 'false!'", True),
        ("(EXISTS subject) LIKE 'tr%'", True),
        ("LENGTH(TRUE) = 4", True),
        ("(hop > 3) + 1 = 2", True),
        ("ok IN (hop = 7, FALSE)", True),
        # In the form of the conformance tests: casts, comparisons, errors.
        ("INT('5') = 5 AND INT('-1') = -1 AND INT(TRUE) = 1 AND INT(12) = 12", True),
        ("hop < INT('10')", True),
        ("BOOL('TRUE') AND NOT BOOL(\"false\") AND BOOL(-50) AND NOT BOOL(0)", True),
        ("STRING(TRUE) = 'true' AND STRING(-1) = '-1' AND STRING('abc') = 'abc'", True),
        ("IS_BOOL('true') AND IS_BOOL('FALSE') AND IS_BOOL(ok)", True),
        ("IS_BOOL(1)", False),
        ("IS_BOOL('abc')", False),
        ("IS_BOOL(hop = 7)", True),
        ("IS_INT('-1') AND IS_INT(hop) AND IS_INT(id)", True),
        ("IS_INT('abc')", False),
        ("IS_INT(TRUE)", False),
        ("IS_INT(subject)", False),
        ("RIGHT(type, -1) = type", False),
        ("RIGHT(type, hop - 1) = 'order%'", True),
        ("LEFT(type, ttl) = type", False),
        ("LEFT(type, 0) = ''", True),
        ("LEFT('abc', 10) = 'abc' AND RIGHT('abc', 10) = 'abc' AND RIGHT('', 0) = ''", True),
        ("TRUE = FALSE", False),
        ("TRUE <> FALSE", True),
        ("'abc' != '123' AND 2 <= 2", True),
        ("missing != 2", False),
        ("234 LIKE '23_'", True),
        ("TRUE LIKE '%ue' AND FALSE LIKE 'fal%'", True),
        ("'azbc' LIKE 'a%b%c' AND '.a.b.' LIKE '._._.'", True),
        ("'abc' LIKE 'a_b_c'", False),
        ("SUBSTRING('Quadratically', 5) = 'ratically' AND SUBSTRING('Sakila', -5, 3) = 'aki'", True),
    ],
)
def test_expressions(text: str, answer: bool) -> None:
    report = from_cesql([text])
    assert report.rejections == []
    for engine in ("auto", "scan"):
        index = MatchIndex(engine)
        index.add_many(**report.columns())
        assert index.match(EVENT) == ([0] if answer else []), report.rules[0].expression


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = 1 AND b = 2 OR c = 3", "AND beside OR"),
        ("NOT a = 1", "NOT before ="),
        ("INT(hop) < 3", "INT of what is no constant"),
        ("INT('ABC') = 0", "INT of 'ABC' is an error in every event"),
        ("BOOL('ABC') = FALSE", "BOOL of 'ABC' is an error in every event"),
        ("IS_STRING('ABC')", "IS_STRING with 1 arguments cannot be expressed"),
        ("CONCAT_WS()", "CONCAT_WS with 0 arguments"),
        ("LENGTH(a, b) = 1", "LENGTH with 2 arguments"),
        ("a LIKE b", "the pattern of LIKE must be a text"),
        ("a + 1", "is no condition"),
        ("a =", "unexpected 'end'"),
        ("a = 1)", "unexpected ')'"),
        ("a ~ 1", "unexpected '~' at position 2"),
        ("(" * 60 + "ok" + ")" * 60, "nested more than 50 times"),
        (5, "an expression is a text"),
    ],
)
def test_what_cannot_be_expressed_is_reported(text: Any, reason: str) -> None:
    report = from_cesql({"bad": text, "good": "ok"})
    assert [rule.id for rule in report] == ["good"]
    assert reason in str(report.rejections[0])
