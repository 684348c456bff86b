"""What is wrong with a long text is found in a part of it: the error is the one that the grammar raises for the whole text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.errors import ExpressionError
from ray_pubsub.language import grammar, parser, wrong_part
from ray_pubsub.language.grammar import parse_by_grammar
from ray_pubsub.language.parser import parse
from ray_pubsub.settings import Limits
from tests.rich_expressions import rich_texts
from tests.unit.language.test_parsers_agree import TOKENS, outcome

RULE = " or ".join(
    f"(a{number} like '%x{number}%' and not (b between 1 and {number} or c in (1, 2)))" for number in range(40)
)
WRONG = [
    f"({RULE}) and",
    f"({RULE}) and x = 'open",
    f"({RULE}) nad x = 3",
    f"(({RULE}) and x = 1",
    f"{RULE}) and x = 1",
    f"not ({RULE}) and nosuch(3) = 2",
    f"not ({RULE}) and (d = 1 or x > > 2 or y = 1)",
    f"z = 1 and (e = 2 or x ! 2) and ({RULE})",
    f"({RULE}) and t > timestamp '2024-13-01' and x = 1",
    f"({RULE}) and lower(s, 2) = 'a' and x = 1",
    f"({RULE}) and x in (1, 2,) and y = 1",
    f"({RULE}) and coalesce(x, (1 + ) ) = 1",
    f"({RULE}) and x between 1 or 2",
]


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_only_the_part_that_is_wrong_is_parsed_by_the_grammar(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = outcome(parse_by_grammar, text, Limits())
    parts = []

    def noted(text: str, part: str, limits: Limits) -> ExpressionError | None:
        parts.append(part)
        return grammar.error_within(text, part, limits)

    monkeypatch.setattr(wrong_part, "error_within", noted)
    monkeypatch.setattr(parser, "parse_by_grammar", None)  # is not asked
    assert outcome(parse, text, Limits()) == expected
    (part,) = parts
    behind = (
        part.index("and (" + RULE) if text.endswith(RULE + ")") else len(part)
    )  # which the grammar does not come to
    assert len("".join(part[:behind].split())) < 100


@pytest.mark.parametrize(
    "text",
    [
        f"(5 and {RULE}) and y nad 3",
        f"case when {RULE} then 1 end > > 2",
        f"{RULE} or 5",
        f"({RULE}) and t > timestamp '2024-13-01'",
    ],
)
def test_the_grammar_decides_where_a_part_does_not(text: str) -> None:
    assert outcome(parse, text, Limits()) == outcome(parse_by_grammar, text, Limits())


@given(
    rich_texts(),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 3), st.sampled_from([*TOKENS, ""])), max_size=2),
)
def test_the_error_is_that_of_the_whole_text(text: str, edits: list[tuple[int, int, str]]) -> None:
    for place, left_out, token in edits:
        at = place % (len(text) + 1)
        text = f"{text[:at]} {token} {text[at + left_out :]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parser, "LONG", -1)
        assert outcome(parse, text, Limits()) == outcome(parse_by_grammar, text, Limits())
