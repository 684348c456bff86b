"""Searches for many texts at once with an Aho-Corasick automaton: a trie of their bytes, with a failure link per node.

Node 0 is the root. The children of a node are children[child_start[node]:child_start[node + 1]], ordered by their bytes; the root's are
in a table of 256, because every byte without another transition leads to the root. Edges are sparse: a full table took a kilobyte per
node. The time depends only on the number of bytes and of texts found; gram_search.py is many times faster unless the texts are very
similar.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = ["Edges", "Links", "build_trie", "find_texts", "link_failures"]


class Edges(NamedTuple):
    """From a node to its children."""

    child_start: Any
    children: Any
    byte: Any
    """Of each node, the one that leads to it."""
    root: Any
    """The root's children by their bytes."""


class Links(NamedTuple):
    """Per node: that of the longest proper suffix; the nearest such that ends a text, or 0; the text it ends, or -1."""

    failure: Any
    shorter: Any
    text_of: Any


@compiled
def build_trie(data, offsets):
    """The trie of distinct texts, given in the order of their bytes: per node its parent, byte and depth, and the text it ends or -1."""
    most = len(data) + 1
    parent, depth = np.zeros(most, np.int32), np.zeros(most, np.int32)
    byte, text_of = np.zeros(most, np.uint8), np.full(most, -1, np.int32)
    path = np.zeros(most, np.int32)  # the nodes of the text before
    nodes = 1
    for text in range(len(offsets) - 1):
        first, length = offsets[text], offsets[text + 1] - offsets[text]
        shared = 0
        if text > 0:
            before = offsets[text - 1]
            while shared < min(length, first - before) and data[before + shared] == data[first + shared]:
                shared += 1
        for level in range(shared, length):
            parent[nodes], depth[nodes], byte[nodes] = path[level], level + 1, data[first + level]
            path[level + 1] = nodes
            nodes += 1
        text_of[path[length]] = text
    return parent[:nodes].copy(), byte[:nodes].copy(), depth[:nodes].copy(), text_of[:nodes].copy()


@inlined
def _child(node, letter, child_start, children, byte, root):
    """The child of a node, 0 if it has none for the byte."""
    if node == 0:
        return root[letter]
    low, high = child_start[node], child_start[node + 1]
    while low < high:
        middle = (low + high) >> 1
        if byte[children[middle]] < letter:
            low = middle + 1
        else:
            high = middle
    found = 0
    if low < child_start[node + 1] and byte[children[low]] == letter:
        found = children[low]
    return found


@compiled
def link_failures(order, parent, edges, links):
    """Fills in `failure` and `shorter` of the links. `order`: the nodes but the root, by depth."""
    child_start, children, byte, root = edges
    failure, shorter, text_of = links
    for node in order:
        if parent[node] != 0:
            state = failure[parent[node]]
            found = _child(state, byte[node], child_start, children, byte, root)
            while found == 0 and state != 0:
                state = failure[state]
                found = _child(state, byte[node], child_start, children, byte, root)
            failure[node] = found
        suffix = failure[node]
        shorter[node] = suffix if text_of[suffix] >= 0 else shorter[suffix]


@compiled
def find_texts(data, start, stop, edges, links, seen, out_string, out_text):
    """Pairs of a string and a text it contains, each once; returns their number, -1 if there is not enough room. String i is
    data[start[i]:stop[i]]; bytes are taken in lower case. `seen`: zeros, one per text."""
    child_start, children, byte, root = edges
    failure, shorter, text_of = links
    filled = 0
    for string in range(len(start)):
        state = 0
        for place in range(start[string], stop[string]):
            letter = data[place]
            if 65 <= letter <= 90:
                letter |= 32
            found = _child(state, letter, child_start, children, byte, root)
            while found == 0 and state != 0:
                state = failure[state]
                found = _child(state, letter, child_start, children, byte, root)
            state = found
            ended = state if text_of[state] >= 0 else shorter[state]
            while ended != 0 and seen[text_of[ended]] != string + 1:  # once met, the shorter ones were met with it
                if filled == len(out_text):
                    return -1
                seen[text_of[ended]] = string + 1
                out_string[filled], out_text[filled] = string, text_of[ended]
                filled += 1
                ended = shorter[ended]
    return filled
