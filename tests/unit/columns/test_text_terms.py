"""Functions of strings on columns are the functions of the specification, string by string."""

from __future__ import annotations

import ipaddress
from random import Random

import numpy as np
import pytest

from ray_pubsub.columns.computed.text_terms import text_term_lanes
from ray_pubsub.language.printer import computed_name
from ray_pubsub.language.terms import Term, term_of
from ray_pubsub.language.truth import value_of_term
from ray_pubsub.model.event_batch import Lane
from ray_pubsub.model.events import read_events
from ray_pubsub.model.values import Value

TERMS = [
    "lower(x)", "upper(x)", "trim(x)", "ltrim(x)", "rtrim(x)", "length(x)", "lower(trim(x))", "length(upper(ltrim(x)))",
    "ip4(x)", "ip6_upper(x)", "ip6_lower(trim(x))",
]  # fmt: skip
ODD = ["", " ", "İ", "ß", "ΑΣ", "ﬀ", "ǅ", "  Ä b ", "\0", "a\0B", "ꟿ", "😀Z", "ⅷ", "K", "ſ", "Å" * 40, "abc" * 30]  # noqa: RUF001
ADDRESSES = [
    "1.2.3.4", "255.255.255.255", "256.1.1.1", "01.2.3.4", "0.0.0.0", "00.0.0.0", "1.2.3", "1.2.3.4.5", "1.2.3.4 ", "1..2.3", "1.2.3.", "",
    "::", "::1", "1::", ":1", "1:", ":::", "1:::2", "1::2::3", "2001:DB8::ff", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8",
    "1:2:3:4:5:6:7:8:9", "1::2:3:4:5:6:7:8", "12345::", "::g", "::ffff:1.2.3.4", "fe80::1%eth0", "fe80::1%", "::1/64", "1.2.3.4/8", "²::",
    "1:2:3:4:5:6:7:", ":1:2:3:4:5:6:7", "::1:2:3:4:5:6:7:8", "0:0:0:0:0:0:0:0", "1.2.3.٤",
]  # fmt: skip


def lanes_of(texts: list[object]) -> dict[str, list[Lane]]:
    return {"x": [lane for lane in read_events([{"x": text} for text in texts]).lanes if lane.attribute == "x"]}


def in_columns(term: Term, texts: list[object]) -> list[Value | None]:
    found: list[Value | None] = [None] * len(texts)
    lanes = text_term_lanes("t", term, lanes_of(texts))
    assert lanes is not None
    for lane in lanes:
        assert lane.attribute == "t"
        rows = np.arange(len(texts)) if lane.rows is None else lane.rows
        for place, row in enumerate(rows.tolist()):
            assert found[row] is None
            found[row] = Value(lane.kind, lane.plain(place))
    return found


@pytest.mark.parametrize("text", TERMS)
def test_columns_say_what_the_specification_says(text: str) -> None:
    random = Random(text)
    letters = "aZ 09.:%ßİσΣéK"  # noqa: RUF001
    texts: list[object] = [*ODD, *ADDRESSES, 5, None, True]
    texts += ["".join(random.choices(letters, k=random.randint(0, 12))) for _ in range(300)]
    random.shuffle(texts)
    term = term_of("\0" + text)
    rows = read_events([{"x": each} for each in texts]).rows()
    assert in_columns(term, texts) == [value_of_term(term, row) for row in rows]


def test_addresses_are_those_of_ipaddress() -> None:
    random = Random(5)
    texts: list[object] = list(ADDRESSES)
    for _ in range(400):
        number = random.getrandbits(128) & random.getrandbits(128) & random.getrandbits(128)
        text = random.choice([str(ipaddress.IPv6Address(number)), ipaddress.IPv6Address(number).exploded])
        if random.random() < 0.5:  # one character is another, or gone
            place = random.randrange(len(text))
            text = text[:place] + random.choice(["", ":", "0", "g", "."]) + text[place + 1 :]
        texts += [text, str(ipaddress.IPv4Address(random.getrandbits(32)))]
    four, upper, lower = (in_columns(term_of(f"\0{name}(x)"), texts) for name in ("ip4", "ip6_upper", "ip6_lower"))
    for given, each_four, each_upper, each_lower in zip(texts, four, upper, lower, strict=True):
        try:
            address = ipaddress.ip_address(str(given))
        except ValueError:
            assert each_four is each_upper is each_lower is None
            continue
        if address.version == 4:
            assert each_four is not None and each_four.plain == int(address) and each_upper is each_lower is None
        else:
            assert each_four is None and each_upper is not None and each_lower is not None
            assert (each_upper.plain + 2**63 << 64) + each_lower.plain + 2**63 == int(address)


def test_terms_of_other_things_are_left_alone() -> None:
    lanes = lanes_of(["a", ["b"]])
    for text in ("length(x)", "concat(x)", "lower(concat(x, 'a'))", "substr(x, 1)", "year(x)"):
        assert text_term_lanes("t", term_of("\0" + text), lanes) is None
    assert text_term_lanes("t", term_of("\0lower(y)"), lanes) == []
    assert computed_name(term_of("\0lower(y)")) == "\0lower(y)"
