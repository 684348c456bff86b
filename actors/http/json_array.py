"""Cuts a JSON array into the documents in it, as they came: what is published is delivered with the digits that the publisher wrote."""

from __future__ import annotations

import json
import re

from actors.http.problems import HttpError

__all__ = ["documents_of_array"]

DECODER = json.JSONDecoder()
SPACES = re.compile(r"[ \t\r\n]*")


def documents_of_array(body: bytes) -> list[bytes]:
    """Returns the elements of an array, each in one line. Raises HttpError if it is not JSON.

    >>> documents_of_array(b'[{"a": 1.50}, 7]')
    [b'{"a": 1.50}', b'7']
    """
    try:
        text = body.decode()
        at, end = SPACES.match(text, text.index("[") + 1).end(), False  # type: ignore[union-attr]
        found: list[bytes] = []
        if text.startswith("]", at):
            end, at = True, at + 1
        while not end:
            _, after = DECODER.raw_decode(text, at)
            found.append(text[at:after].replace("\n", " ").replace("\r", " ").encode())
            at = SPACES.match(text, after).end()  # type: ignore[union-attr]
            if not text.startswith((",", "]"), at):
                raise json.JSONDecodeError("Expecting ',' or ']'", text, at)
            end = text[at] == "]"
            at = at + 1 if end else SPACES.match(text, at + 1).end()  # type: ignore[union-attr]
        if text[at:].strip(" \t\r\n"):
            raise json.JSONDecodeError("Extra data", text, at)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"this is not JSON: {error}") from None
    return found
