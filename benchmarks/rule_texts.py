"""Texts of rules as people write them, for the benchmark of ingest: hardly two of a kind are alike but for their constants."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["detection_rule", "rule_of_new_shape", "rule_on_rare_attributes"]

FIELDS = ("process.command_line", "process.name", "parent.name", "registry.path", "file.name", "user", "message")
Leaf = Callable[[random.Random], str]


def rule_of_new_shape(random_: random.Random, leaves: int = 10) -> str:
    """Predicates of every sort on 200 attributes, nested at random."""
    return _nested(random_, leaves, _plain, 0)


def rule_on_rare_attributes(random_: random.Random) -> str:
    """Three string tests on 3 of 1,000 attributes."""
    names = random_.sample(range(1000), 3)
    return " and ".join(f"attribute{name} = 'value{random_.randrange(1000)}'" for name in names)


def detection_rule(random_: random.Random) -> str:
    """Mostly patterns, in alternatives of one attribute, some of them excluded; 3 to 1,000 of them."""
    parts = []
    left = min(1000, int(3 * 2 ** random_.expovariate(0.6)))
    while left > 0:
        count = min(left, random_.choice([1, 1, 2, 3, 5, 10, 40, 200]))
        left -= count
        field = random_.choice(FIELDS)
        alternatives = " or ".join(f"{field} like '%{random_.getrandbits(40):x}%'" for _ in range(count))
        negation = "not " if parts and random_.random() < 0.25 else ""
        parts.append(f"{negation}({alternatives})")
    parts.append(f"event_id in ({', '.join(str(random_.randrange(9000)) for _ in range(random_.randint(1, 5)))})")
    return " and ".join(parts)


def _plain(random_: random.Random) -> str:
    name, value = f"a{random_.randrange(200)}", random_.randrange(1000)
    return random_.choice(
        [
            f"{name} {random_.choice(['=', '!=', '<', '<=', '>', '>='])} {value}", f"s{name} = 'v{value}'", f"{name} is not null",
            f"s{name} in ({', '.join(repr(f'v{random_.randrange(1000)}') for _ in range(random_.randint(1, 8)))})",
            f"{name} between {value} and {value + 100}", f"s{name} like 'p{value}%'", f"s{name} not in ('k{value}', 'm')",
            f"{name} > {random_.random():.3f}",
        ]
    )  # fmt: skip


def _nested(random_: random.Random, leaves: int, leaf: Leaf, depth: int) -> str:
    if leaves == 1:
        return leaf(random_) if random_.random() < 0.9 else f"not ({leaf(random_)})"
    cuts = sorted(random_.sample(range(1, leaves), random_.randint(1, min(leaves - 1, 3))))
    sizes = [after - before for before, after in zip([0, *cuts], [*cuts, leaves], strict=True)]
    parts = [_nested(random_, size, leaf, depth + 1) for size in sizes]
    word = " or " if depth % 2 else " and "
    return word.join(part if size == 1 else f"({part})" for part, size in zip(parts, sizes, strict=True))
