"""Log lines and the texts that rules look for in them: command lines, paths, addresses, messages; with shared prefixes, mostly rare."""

from __future__ import annotations

import random

__all__ = ["log_lines", "searched_texts", "vocabulary"]

STEMS = "bcdfgklmnprstvwz"
SYLLABLES = [consonant + vowel for consonant in STEMS for vowel in "aeiou"] + [
    "el",
    "en",
    "er",
    "in",
    "on",
    "or",
    "st",
    "tra",
    "un",
]
COMMON = 400
"""That many words of a vocabulary make up four fifths of the lines."""


def vocabulary(random_: random.Random, size: int = 20_000) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < size:
        found["".join(random_.choices(SYLLABLES, k=random_.randint(2, 4)))] = None
    return list(found)


def log_lines(random_: random.Random, words: list[str], size: int) -> list[str]:
    """Distinct lines of `size` bytes together."""

    def word() -> str:
        return random_.choice(words[:COMMON] if random_.random() < 0.8 else words)

    found: dict[str, None] = {}
    total = 0
    while total < size:
        kind = random_.random()
        if kind < 0.35:
            line = (
                f"C:\\Windows\\System32\\{word()}.exe -{word()} /{word()}:{random_.randint(0, 9999)} "
                f'"C:\\Program Files\\{word().title()}\\{word()}\\{word()}.dll" --{word()}={word()}'
            )
        elif kind < 0.55:
            ending = random_.choice(["exe", "dll", "tmp", "log"])
            line = (
                f"C:\\Users\\{word()}\\AppData\\Local\\{word().title()}\\{word()}_{random_.randint(0, 99999)}.{ending}"
            )
        elif kind < 0.75:
            host = f"{word()}.{word()}.{random_.choice(['com', 'net', 'org'])}"
            line = f"https://{host}/{word()}/{word()}?{word()}={random_.randint(0, 10**8)}&{word()}={word()}"
        else:
            said = " ".join(word() for _ in range(random_.randint(4, 14)))
            level = random_.choice(["INFO", "WARN", "ERROR"])
            line = f"2026-11-{random_.randint(1, 30):02d} {level} {word()}: {said} user={word()} pid={random_.randint(1, 65535)}"
        found[line] = None
        total += len(line)
    return list(found)


def searched_texts(random_: random.Random, words: list[str], count: int) -> list[str]:
    """Distinct texts; one in a hundred occurs often."""
    common, rare = words[:COMMON], words[COMMON:]
    found: dict[str, None] = {}
    while len(found) < count:
        word, other = random_.choice(rare), random_.choice(rare)
        frequent = random_.choice(common)
        text = random_.choices(
            [
                random_.choice([word, f"\\{frequent}", f"user={frequent}", f".{frequent}"]),
                f"\\System32\\{word}.exe",
                f"\\AppData\\Local\\{word.title()}\\",
                f" -{word} {other}",
                f"://{word}.{other}.",
                f"{word}{random_.randint(0, 99)}",
                f"{word} {other}",
            ],
            [1, 30, 20, 10, 15, 10, 14],
        )[0]
        found[text] = None
    return list(found)
