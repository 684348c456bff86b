"""A set of constants is one constant of its shape, however long it is; texts of such shapes mean what the parser says."""

from __future__ import annotations

import pytest

from ray_pubsub.errors import ExpressionLimitError
from ray_pubsub.language.case_folding import fold_case
from ray_pubsub.language.parser import parse
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.settings import Limits

TEMPLATES = [
    "x in ({}) and y > {}",
    "x not IN( {} ) or y = {}",
    "lower(s) in ({}) and z in ({})",
    '"a in (1, 2)" in ({}) and y = {}',
    "s = 'in (1, 2)' and x in ({}) and y = {}",
    "x in ({}, null) and y < {}",
    "x in ({}, -1) and y < {}",
    "coalesce(s, 'none') in ({}) and y in ({}, {})",
    "exists(l, x in ({}) and y > {})",
    "5 in ({}) and y = {}",
    "case when x in ({}) then 1 else 2 end = {}",
    "x in ({}) and y + 2 * (z - {}) > 5",
    "in_stock and x in ({}) and login in ({}) and within = 3",
]


def filled(template: str, members: list[str]) -> str:
    return template.format(*[", ".join(members)] * (template.count("{}") - 1), "7")


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("ignore_case", [False, True])
def test_lists_of_any_length_mean_what_the_parser_says(template: str, ignore_case: bool) -> None:
    cache = ShapeCache(Limits(), ignore_case=ignore_case)
    for written in (["'a'", "'It''s'", "'B'", "'('"], ["1", "2.5", "3"]):
        for count in (1, 2, 3, 1, 2, 3, 200):
            text = filled(template, (written * 100)[:count])
            try:
                tree = parse(text)
            except Exception as error:
                with pytest.raises(type(error)):
                    cache.parse(text)
                continue
            assert cache.parse(text).tree == (fold_case(tree) if ignore_case else tree)


def test_they_are_one_shape() -> None:
    cache = ShapeCache(Limits())
    texts = [filled("x in ({}) and y > {}", ["'a'"] * count) for count in (1, 2, 3, 50)]
    assert len({id(cache.parse(text).shape) for text in texts[1:]}) == 1


def test_a_list_that_is_too_long_for_its_known_shape_is_refused() -> None:
    cache = ShapeCache(Limits(set_size=3))
    for members in ("1", "1, 2", "1, 2, 3"):
        cache.parse(f"x in ({members})")
    with pytest.raises(ExpressionLimitError):
        cache.parse("x in (1, 2, 3, 4)")
