"""Numbers of names, many at once: the same as one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.columns.vocabulary import Names

TEXTS = st.lists(st.text("ab", max_size=3), max_size=12)


@given(TEXTS, TEXTS)
def test_many_names_have_the_numbers_that_one_by_one_gives(known: list[str], texts: list[str]) -> None:
    distinct = list(dict.fromkeys(texts))
    names, together, apart = Names(), Names(), Names()
    for each in (names, together, apart):
        each.numbers(known)
    expected = [names.number(text) for text in distinct]
    assert together.numbers(distinct) == apart.numbers_of_distinct(distinct) == expected
    assert together.texts == apart.texts == names.texts
