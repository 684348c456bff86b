"""Strings coded by a kernel have the codes that bisection in Python's own strings gives them."""

from __future__ import annotations

import pickle
from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub.columns.string_hashes import distinct_of, hashes_of
from ray_pubsub.columns.string_table import StringTable
from ray_pubsub.model.text_column import TextBytes, TextColumn
from tests.examples import scaled

# Letters whose order by code point, by UTF-8 and by UTF-16 differ; words at every length where loads of 4 and 8 bytes overlap.
LETTERS = "ab\0\u00e9\ud7ff\ue000\U0001f600\U0010ffff"
words = st.text(LETTERS, max_size=20) | st.sampled_from(["a" * length + end for length in range(18) for end in "ab"])


def column(texts: list[str]) -> TextColumn:
    """Through bytes, whatever way it was made."""
    return TextColumn.encoded(texts)


@settings(derandomize=True, deadline=None, max_examples=scaled(150))
@given(st.lists(words, min_size=1, max_size=30), st.lists(words, min_size=1, max_size=20), st.integers(0, 9))
def test_codes_are_those_of_bisection(operands: list[str], others: list[str], base: int) -> None:
    operands = sorted(set(operands))
    strings = [*others, *operands]
    expected = [base + 2 * bisect_left(operands, text) + (text in operands) for text in strings]
    assert StringTable(operands).codes(column(strings), base).tolist() == expected


def test_codes_among_no_operands() -> None:
    assert StringTable([]).codes(column(["", "a"]), 3).tolist() == [3, 3]


def test_codes_among_many_operands() -> None:
    operands = sorted(str(number) for number in range(0, 20_000, 2))
    strings = [str(number) for number in range(0, 20_000, 7)]
    expected = [2 * bisect_left(operands, text) + (text in set(operands)) for text in strings]
    assert StringTable(operands).codes(column(strings), 0).tolist() == expected


@settings(derandomize=True, deadline=None, max_examples=scaled(100))
@given(st.lists(words, max_size=30))
def test_distinct_strings(texts: list[str]) -> None:
    which, distinct = distinct_of(column(texts))
    assert distinct.tolist() == list(dict.fromkeys(texts))
    assert [distinct[place] for place in which.tolist()] == texts


def test_strings_whose_hashes_are_equal_are_still_told_apart() -> None:
    """Nobody can make hashes collide from outside, but they may."""
    strings = column(["a", "b", "a", "c"])
    strings.hashes = np.zeros(4, np.uint64)
    which, distinct = distinct_of(strings)
    assert distinct.tolist() == ["a", "b", "c"]
    assert which.tolist() == [0, 1, 0, 2]


@settings(derandomize=True, deadline=None, max_examples=scaled(100))
@given(st.lists(words, max_size=10))
def test_a_column_of_texts_is_those_texts(texts: list[str]) -> None:
    for made in (column(texts), TextColumn(None, texts), pickle.loads(pickle.dumps(TextColumn(None, texts)))):
        assert (len(made), list(made), made.tolist()) == (len(texts), texts, texts)
        assert TextColumn(made.bytes).tolist() == texts
    chosen = np.arange(0, len(texts), 2)
    assert column(texts).take(chosen).tolist() == texts[::2]
    assert TextColumn.joined([column(texts), column(texts[1:])]).tolist() == texts + texts[1:]


@pytest.mark.parametrize("texts", [["a", "\ud800"], ["\udfff"], ["a\0", "\ud800"]], ids=repr)
def test_a_lone_surrogate_cannot_be_encoded(texts: list[str]) -> None:
    with pytest.raises(UnicodeEncodeError):
        TextColumn.encoded(texts)


@pytest.mark.parametrize("texts", [["a", None], ["a", 1], [b"a"]], ids=repr)
def test_what_is_not_a_str_cannot_be_encoded(texts: list[str]) -> None:
    with pytest.raises(TypeError):
        TextColumn.encoded(texts)


def test_slices_that_leave_bytes_out_between_them() -> None:
    data = np.frombuffer(b"xxabcxdxx", np.uint8)
    strings = TextColumn(TextBytes(data, np.array([2, 6, 4, 9]), np.array([5, 7, 4, 9])))
    assert strings.tolist() == ["abc", "d", "", ""]
    assert StringTable(["", "abc"]).codes(strings, 0).tolist() == [3, 4, 1, 1]
    assert len(hashes_of(strings)) == 4
