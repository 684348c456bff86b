"""Texts in queries of Elasticsearch: those that are written like numbers, and regular expressions."""

from __future__ import annotations

from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.importers import from_elasticsearch

NUMBERS_AND_TEXTS: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    # Whatever the mapping, a query for 404 finds 404 and "404".
    ({"term": {"a": 404}}, [404, "404", 404.0], [405, "0404", True]),
    ({"term": {"a": "404"}}, [404, "404"], [405, "4040"]),
    ({"terms": {"a": ["1.5", "x"]}}, [1.5, "1.5", "x"], [1, "1.50"]),
    ({"term": {"a": "007"}}, ["007"], [7, "7"]),
    ({"term": {"a": True}}, [True, "true"], [1, "True", False]),
    ({"term": {"a": "false"}}, [False, "false"], [0, "False"]),
    ({"range": {"a": {"gte": "10", "lt": "20"}}}, [10, 15.5, "10", "1x"], [9, 20, "21", "9"]),
    ({"range": {"a": {"gte": "10", "lt": 20}}}, [10, "15"], [9, 20]),
    ({"range": {"a": {"gte": "v10"}}}, ["v2", "w"], [10, "10"]),
]


@pytest.mark.parametrize(("query", "matching", "others"), NUMBERS_AND_TEXTS)
@pytest.mark.parametrize("lists", [False, True])
def test_numbers_are_also_written_as_texts(query: Any, matching: list[Any], others: list[Any], lists: bool) -> None:
    queries = {"query": query, "not": {"bool": {"must_not": query}}}
    index = MatchIndex()
    index.add_many(**from_elasticsearch(queries, lists=lists).columns())
    for place, values in enumerate((matching, others)):
        for value in values:
            expected = ["query", "not"][place : place + 1]
            assert index.match({"a": value}) == expected, value
            assert not lists or index.match({"a": [None, value]}) == expected, value


LUCENE: list[tuple[str, list[str], list[str]]] = [
    # Pattern, what it spans, what it does not. The examples of Elasticsearch's "Regular expression syntax" are among them.
    ("ab.", ["aba", "ab\n"], ["ab", "xaba"]),
    ("abc(def)?", ["abc", "abcdef"], ["abcd"]),
    ("a{2,4}", ["aa", "aaaa"], ["a", "aaaaa"]),
    ("[^-abc]", ["z"], ["-", "a", "zz"]),
    ("[abc\\-]", ["-"], ["\\"]),
    ("[[:alpha:]+", ["[", "pah:"], ["z"]),
    ("[~&@^$]", ["~", "^", "$"], ["x"]),
    ("a\\.\\$\\^\\~b", ["a.$^~b"], ["ax$^~b"]),
    ("\\d+\\w\\s", ["12_ "], ["x_ ", "12- "]),
    ("a*?b", ["b", "aab"], ["a"]),
    ("x|yz", ["x", "yz"], ["xz"]),
    ("", [""], ["x"]),
]


@pytest.mark.parametrize(("pattern", "spanned", "others"), LUCENE)
def test_regular_expressions_are_those_of_lucene(pattern: str, spanned: list[str], others: list[str]) -> None:
    index = MatchIndex()
    index.add_many(**from_elasticsearch([{"regexp": {"a": pattern}}]).columns())
    assert len(index) == 1
    assert [bool(index.match({"a": text})) for text in spanned + others] == [True] * len(spanned) + [False] * len(
        others
    )
