"""Rules of other sorts than texts.py has, hardly two of one shape: saved searches, audience segments, and conditions with functions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["RULES", "written_event"]

BRANDS = ("acme", "globex", "initech", "umbrella", "hooli", "stark", "wayne", "tyrell")


def _word(random_: random.Random) -> str:
    return f"{random_.choice(BRANDS)}{random_.randrange(800)}"


def _listed(random_: random.Random, most: int, prefix: str = "") -> str:
    members = (random_.randrange(5000) for _ in range(random_.randint(1, most)))
    return ", ".join(f"'{prefix}{member}'" if prefix else str(member) for member in members)


def _groups(random_: random.Random, leaves: int, largest: int) -> Iterator[int]:
    while leaves > 0:
        count = min(leaves, random_.randint(1, largest))
        leaves -= count
        yield count


def saved_search(random_: random.Random, leaves: int) -> str:
    """What somebody looks for: words in a title, a price, a place, and what is not wanted."""
    parts: list[str] = []
    for count in _groups(random_, leaves, 8):
        low = random_.randrange(1000)
        words = [f"title ilike '%{_word(random_)}%'" for _ in range(count)]
        parts.append(
            random_.choice(
                (
                    f"({' or '.join(words)})",
                    f"not ({' or '.join(words)})",
                    f"category in ({_listed(random_, 2 * count, 'c')})",
                    f"price between {low} and {low + random_.randrange(1000)}.{random_.randrange(100):02d}",
                    f"listed >= timestamp '2026-{random_.randint(1, 12):02d}-{random_.randint(1, 28):02d} 08:00'",
                    f"(brand = '{_word(random_)}' and model like '{_word(random_)}%' or state is null)",
                    f"not (seller in ({_listed(random_, 2 * count)}) or rating < {random_.randint(1, 5)})",
                )
            )
        )
    return " and ".join(parts)


def segment(random_: random.Random, leaves: int) -> str:
    """Groups of conditions on what is known of a person, with long lists."""
    groups = []
    for count in _groups(random_, leaves, 6):
        each = []
        for _ in range(count):
            age = random_.randint(13, 60)
            each.append(
                random_.choice(
                    (
                        f"country {random_.choice(('', 'not '))}in ({_listed(random_, 30, 'k')})",
                        f"city in ({_listed(random_, 100, 'c')})",
                        f"age between {age} and {age + random_.randint(1, 30)}",
                        f"interest_{random_.randrange(40)} >= 0.{random_.randrange(100):02d}",
                        f"device != '{_word(random_)}'",
                        f"visits > {random_.randrange(100)}",
                    )
                )
            )
        groups.append(
            f"{random_.choice(('', '', '', 'not '))}({random_.choice((' and ', ' or ')).join(dict.fromkeys(each))})"
        )
    return random_.choice((" and ", " or ")).join(groups)


def with_functions(random_: random.Random, leaves: int) -> str:
    """A third of the conditions are functions that are true or false, a third tests of computed values."""
    groups = []
    for count in _groups(random_, leaves, 4):
        each = (random_.choice((_plain, _computed, _called))(random_) for _ in range(count))
        groups.append(f"{random_.choice(('', '', '', 'not '))}({' or '.join(each)})")
    return " and ".join(groups)


def _plain(random_: random.Random) -> str:
    name = f"n{random_.randrange(20)}"
    return random_.choice((f"{name} > {random_.randrange(1000)}", f"{name} is null", f"brand = '{_word(random_)}'"))


def _computed(random_: random.Random) -> str:
    hour = random_.randrange(12)
    return random_.choice(
        (
            f"lower(brand) = '{_word(random_)}'",
            f"price * quantity > {random_.randrange(9000)}",
            f"length(title) > {random_.randrange(100)}",
            f"extract(hour from listed) between {hour} and {hour + 8}",
        )
    )


def _called(random_: random.Random) -> str:
    return random_.choice(
        (
            f"list_contains(tags, '{_word(random_)}')",
            f"list_has_any(tags, ['{_word(random_)}', '{_word(random_)}'])",
            f"'{_word(random_)}' = any(tags)",
            f"ip_in(address, '10.{random_.randrange(256)}.{random_.randrange(256)}.0/24')",
            f"exists(items, price < {random_.randrange(500)} and color = 'red')",
            f"contains(title, '{_word(random_)}')",
            f"n{random_.randrange(20)} < n{random_.randrange(20)}",
        )
    )


RULES: dict[str, Callable[[random.Random, int], str]] = {
    "saved searches": saved_search,
    "audience segments": segment,
    "rules with functions": with_functions,
}
"""Each takes the number of conditions."""


def written_event(random_: random.Random) -> dict[str, Any]:
    event: dict[str, Any] = {f"n{number}": random_.randrange(1000) for number in range(20)}
    event |= {f"interest_{number}": random_.random() for number in range(40)}
    event |= {
        "title": " ".join(_word(random_).title() for _ in range(6)), "category": f"c{random_.randrange(5000)}", "brand": _word(random_),
        "price": random_.randrange(2000), "quantity": random_.randrange(9), "model": _word(random_), "seller": random_.randrange(5000),
        "rating": random_.randint(1, 5), "country": f"k{random_.randrange(5000)}", "city": f"c{random_.randrange(5000)}",
        "age": random_.randrange(90), "device": _word(random_), "visits": random_.randrange(100),
        "tags": [_word(random_) for _ in range(5)], "address": f"10.{random_.randrange(256)}.{random_.randrange(256)}.7",
        "items": [{"price": random_.randrange(500), "color": random_.choice(("red", "blue"))} for _ in range(2)],
    }  # fmt: skip
    return {name: value for name, value in event.items() if random_.random() < 0.85}
