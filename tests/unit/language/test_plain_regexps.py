"""A regular expression that is taken as valid without being compiled is one that RE2 compiles."""

from __future__ import annotations

import random

import pytest

from ray_pubsub.language.patterns import compile_regexp
from ray_pubsub.language.plain_regexps import is_plainly_valid
from ray_pubsub.language.words import BadConstant

PIECES = [
    *"abX0 _-.*+?|^$()[]{}\\,:'\u00e9\U0001f600\n\0", "(?:", "(?i)", "(?i:", "[a-z]", "[^0-9]", "\\d", "\\w+", "\\.", "{2}", "{1,3}",
    "{3,1}", "{99}", "[a-", "[z-a]", "\\b", "\\_", "\\Q", "\\pL", "(?P<n>", "(a|b)", "**", "[[:alpha:]]", "\\z", "\\Z", "\\x41",
]  # fmt: skip


def test_what_is_taken_as_valid_compiles() -> None:
    random_ = random.Random(1)
    patterns = {"".join(random_.choices(PIECES, k=random_.randint(0, 8))) for _ in range(4000)}
    taken = [pattern for pattern in sorted(patterns) if is_plainly_valid(pattern)]
    assert len(taken) > 300
    for pattern in taken:
        compile_regexp.__wrapped__(pattern)


@pytest.mark.parametrize(
    "pattern", ["", "cmd\\.exe$", "(?i)power(shell|cat)+ -e[nc]{0,5} ", "^w[0-9]+.*(a|b(c|d)?)$", "[^\\\\/]+\\.tmp", "\u00e9+"]
)  # fmt: skip
def test_ordinary_ones_are_recognised(pattern: str) -> None:
    assert is_plainly_valid(pattern)


@pytest.mark.parametrize("pattern", ["(", "a**", "[z-a]", "a{3,1}", "*a", "[a", "a\\", "(?P<n>a", "\\Z"])
def test_wrong_ones_are_not(pattern: str) -> None:
    assert not is_plainly_valid(pattern)
    with pytest.raises(BadConstant):
        compile_regexp(pattern)


def test_programs_stay_small() -> None:
    """The largest programs of what is recognised are within RE2's memory; what would be larger is left to RE2."""
    for pattern in ("\\W" * 500, "(?i)" + "[^k]" * 240, "\\W{99}\\W{98}"):
        assert is_plainly_valid(pattern)
        compile_regexp(pattern)
    assert not is_plainly_valid("\\W{99}" * 3)
