"""Finds all of many texts that occur in strings, in one pass even if the texts share long parts (kernels/columns/text_automaton.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.columns.text_automaton import Edges, Links, build_trie, find_texts, link_failures
from ray_pubsub.model.text_column import TextColumn

if TYPE_CHECKING:
    from ray_pubsub.columns.literal_search import Literal

__all__ = ["TextAutomaton"]


class TextAutomaton:
    """Immutable. It searches for the texts in lower case, then compares each one found in its exact case."""

    def __init__(self, literals: Sequence[Literal]) -> None:
        self._by_text: dict[bytes, list[int]] = {}
        for number, literal in enumerate(literals):
            self._by_text.setdefault(literal.text.encode().lower(), []).append(number)
        self._literals = [(literal.text.encode(), literal.at_end, literal.folded) for literal in literals]
        self._texts = sorted(self._by_text)
        offsets = np.concatenate([[0], np.cumsum([len(text) for text in self._texts])]).astype(np.int64)
        parent, byte, depth, text_of = build_trie(np.frombuffer(b"".join(self._texts), np.uint8), offsets)
        nodes = len(parent)
        children = np.argsort(parent[1:], kind="stable").astype(np.int32) + np.int32(1)  # ordered by byte, too
        child_start = np.searchsorted(parent[children], np.arange(nodes + 1)).astype(np.int32)
        root = np.zeros(256, np.int32)
        first = children[: child_start[1]]
        root[byte[first]] = first
        self._edges = Edges(child_start, children, byte, root)
        self._links = Links(np.zeros(nodes, np.int32), np.zeros(nodes, np.int32), text_of)
        link_failures(np.argsort(depth, kind="stable")[1:], parent, self._edges, self._links)

    def find(self, strings: TextColumn) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns pairs of the number of a string and of a text that occurs in it; in any order, each once."""
        data, start, stop = strings.bytes
        room, found = 1024, -1
        while found < 0:
            string, text = np.empty(room, np.int32), np.empty(room, np.int32)
            seen = np.zeros(len(self._texts), np.int64)
            found = find_texts(data, start, stop, self._edges, self._links, seen, string, text)
            room *= 4
        pairs: list[tuple[int, int]] = []
        for place, number in zip(string[:found].tolist(), text[:found].tolist(), strict=True):
            raw = data[start[place] : stop[place]].tobytes()
            pairs += [(place, each) for each in self._by_text[self._texts[number]] if self._is_in(each, raw)]
        table = np.array(pairs, np.int32).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    def _is_in(self, number: int, raw: bytes) -> bool:
        text, at_end, folded = self._literals[number]
        raw = raw.lower() if folded else raw
        return raw.endswith(text) if at_end else text in raw
