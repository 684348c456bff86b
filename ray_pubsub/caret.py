"""Shows a place in a text: its line, and a caret below it."""

from __future__ import annotations

__all__ = ["SHOWN_CHARACTERS", "point_at"]

SHOWN_CHARACTERS = 60
"""The most characters of a line on either side of a place."""


def point_at(text: str, position: int) -> str:
    """Returns the line of `text` around `position`, cut to a readable width, with a caret under the place."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end]
    column = position - start
    if len(line) > 2 * SHOWN_CHARACTERS:
        first = max(0, column - SHOWN_CHARACTERS)
        head, tail = ("…" if first else ""), ("…" if first + 2 * SHOWN_CHARACTERS < len(line) else "")
        line = head + line[first : first + 2 * SHOWN_CHARACTERS] + tail
        column += len(head) - first
    line = line.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be printed
    # A tab or a control character would move the caret away from its place.
    line = "".join(" " if character < " " else character for character in line)
    return f"  {line}\n  {' ' * column}^"
