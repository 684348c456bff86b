"""JSON documents, one after the other in one buffer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import EventError

__all__ = ["LONG", "Document", "Documents", "documents_of", "only_document"]

NEWLINE = 10
SPACES = b" \t\r\n"
BLANKS = SPACES.decode()
DECODER = json.JSONDecoder()
LONG = 8192
"""The bytes from which on a document is worth a scan."""


class Documents(NamedTuple):
    """Document i is data[start[i]:stop[i]]."""

    raw: bytes
    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    refused: dict[int, str]
    """Why an input is not a document, by position; its text is then empty."""

    @property
    def size(self) -> int:
        return len(self.start)

    def text(self, place: int) -> bytes:
        return self.raw[self.start[place] : self.stop[place]]

    def part(self, first: int, last: int) -> Documents:
        """Returns a slice of the documents that shares the buffer; `first` and `last` as in a slice."""
        refused = {place - first: reason for place, reason in self.refused.items() if first <= place < last}
        return self._replace(start=self.start[first:last], stop=self.stop[first:last], refused=refused)


class Document(NamedTuple):
    """A single short document, and the object that it is."""

    text: bytes
    event: dict[str, Any]


def only_document(lines: Any) -> Document | None:
    """Returns a short text that is certainly one valid document: finding its lines would take longer than reading it."""
    if isinstance(lines, list) and len(lines) == 1:
        lines = lines[0]
    if type(lines) not in (bytes, str) or len(lines) >= LONG:
        return None
    newline = lines.find(b"\n" if type(lines) is bytes else "\n")
    if 0 <= newline < len(lines) - 1:  # mostly there are several documents
        return None
    try:
        text = lines.encode() if type(lines) is str else lines  # a lone surrogate is no valid text
        event = _loaded(text.decode())
    except (ValueError, RecursionError):  # the error is worded by the caller, which reads it among others
        return None
    return Document(text, event) if type(event) is dict else None


def _loaded(text: str) -> Any:
    """Does the same as json.loads, with one call instead of five for an object with nothing before it."""
    if text[:1] == "{":
        found, end = DECODER.raw_decode(text)
        if end == len(text) or not text[end:].strip(BLANKS):
            return found
    return json.loads(text)


def documents_of(lines: Any) -> Documents:
    """Accepts bytes or str with one document per line (blank lines are skipped) or one document over several lines, or an iterable of
    bytes or str, one document each."""
    if isinstance(lines, Documents):
        return lines
    if isinstance(lines, str):
        lines = lines.encode(errors="surrogatepass")
    if isinstance(lines, bytes | bytearray | memoryview):
        return _lines(bytes(lines))
    if not isinstance(lines, Iterable) or isinstance(lines, dict):
        raise EventError(None, f"JSON events are bytes, a str or a list of them, not {type(lines).__name__}")
    return _listed(lines if isinstance(lines, list) else list(lines))


def _lines(raw: bytes) -> Documents:
    data = np.frombuffer(raw, np.uint8)
    if b"\n" not in raw:
        one = int(bool(raw.strip(SPACES)))
        return Documents(raw, data, np.zeros(one, np.int64), np.full(one, len(raw)), {})
    ends = np.flatnonzero(data == NEWLINE)
    start, stop = np.concatenate([[0], ends + 1]), np.concatenate([ends, [len(raw)]])
    filled = stop > start
    # Only a line that begins with white space can be blank; most begin with a brace.
    for place in np.flatnonzero(filled & (data[np.minimum(start, max(len(raw) - 1, 0))] <= 32) if len(raw) else filled):
        filled[place] = bool(raw[start[place] : stop[place]].strip(SPACES))
    if not filled.all():
        start, stop = start[filled], stop[filled]
    if len(start) > 1 and not _is_json(raw[start[0] : stop[0]]) and _is_json(raw):
        start, stop = np.zeros(1, np.int64), np.array([len(raw)])
    return Documents(raw, data, start, stop, {})


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _listed(documents: list[Any]) -> Documents:
    refused: dict[int, str] = {}
    if not set(map(type, documents)) <= {bytes}:
        documents = [_encoded(place, document, refused) for place, document in enumerate(documents)]
    ends = np.cumsum(np.fromiter(map(len, documents), np.int64, len(documents)))
    return _framed(b"".join(documents), np.concatenate([[0], ends[:-1]])[: len(ends)], ends, refused)


def _encoded(place: int, document: Any, refused: dict[int, str]) -> bytes:
    if isinstance(document, str):
        return document.encode(errors="surrogatepass")
    if isinstance(document, bytes | bytearray | memoryview):
        return bytes(document)
    refused[place] = f"a JSON document is bytes or str, not {type(document).__name__}"
    return b""


def _framed(raw: bytes, start: Any, stop: Any, refused: dict[int, str]) -> Documents:
    return Documents(raw, np.frombuffer(raw, np.uint8), start.astype(np.int64), stop.astype(np.int64), refused)
