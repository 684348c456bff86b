"""Upper and lower case, character by character: Unicode's simple case mapping, as DuckDB has it.

A character becomes one character, whatever stands beside it: 'ß' stays as it is in upper case, where Python's own `upper` makes 'SS' of
it; 'İ' becomes 'i', where Python's `lower` adds a combining dot; and a sigma at the end of a word is like any other.
"""

from __future__ import annotations

from functools import lru_cache

__all__ = ["simple_lower", "simple_upper"]


def simple_lower(text: str) -> str:
    """Returns the text in lower case."""
    return text.lower() if text.isascii() else "".join(map(_lower, text))


def simple_upper(text: str) -> str:
    """Returns the text in upper case."""
    return text.upper() if text.isascii() else "".join(map(_upper, text))


@lru_cache(maxsize=4096)
def _lower(character: str) -> str:
    return character.lower()[:1]  # only İ has two: i and a dot


@lru_cache(maxsize=4096)
def _upper(character: str) -> str:
    if len(character.upper()) == 1:
        return character.upper()
    # What has several letters in upper case may have one in title case, which is its simple mapping.
    return character.title() if len(character.title()) == 1 else character
