"""Upper and lower case, character by character: Unicode's simple case mapping, as in DuckDB.

One character becomes one character, regardless of its neighbours: 'ß' stays 'ß' in upper case, where Python's `upper` gives 'SS'; 'İ'
becomes 'i', where Python's `lower` adds a combining dot; and a sigma at the end of a word is not special.
"""

from __future__ import annotations

from functools import lru_cache

__all__ = ["simple_lower", "simple_upper"]


DOTTED_I, SIGMA = "\u0130", "\u03a3"
"""Capital letters whose lower case Python makes of two characters, or makes depend on what is beside it."""


def simple_lower(text: str) -> str:
    """Returns the text in lower case."""
    if not text.isascii() and (DOTTED_I in text or SIGMA in text):
        return "".join(map(_lower, text))
    return text.lower()


def simple_upper(text: str) -> str:
    """Returns the text in upper case."""
    changed = text.upper()  # it does not depend on what is beside a character, but may make several of one
    return changed if len(changed) == len(text) else "".join(map(_upper, text))


@lru_cache(maxsize=4096)
def _lower(character: str) -> str:
    return character.lower()[:1]  # only İ has two: i and a dot


@lru_cache(maxsize=4096)
def _upper(character: str) -> str:
    if len(character.upper()) == 1:
        return character.upper()
    # A character with several letters in upper case may have one in title case, which is its simple mapping.
    return character.title() if len(character.title()) == 1 else character
