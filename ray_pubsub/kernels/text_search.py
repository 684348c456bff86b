"""Many texts searched for at once (Aho and Corasick): a trie of their bytes, with a failure link per node.

Node 0 is the root. The children of a node are children[child_start[node]:child_start[node + 1]], ordered by their bytes; the root's are in
a table of 256, as every byte that goes nowhere else ends up there. Edges are sparse: a full table took a kilobyte a node.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = ["build_trie", "find_texts", "link_failures"]


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
def link_failures(order, parent, byte, text_of, child_start, children, root, failure, shorter):
    """failure[node]: the node of the longest proper suffix; shorter[node]: the nearest such that ends a text, or 0. `order`: the nodes but
    the root, by depth."""
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
def find_texts(
    data, offsets, byte, text_of, child_start, children, root, failure, shorter, seen, seen_last, stamp, out_offsets, out, out_last
):  # fmt: skip
    """Per string the texts it contains, each once, and whether its last occurrence is at the end; returns the first string that no longer
    fits `out`, or the number of strings. `seen` and `seen_last` (where in `out`) are per text; stamps start at `stamp`."""
    for string in range(len(offsets) - 1):
        filled = out_offsets[string]
        now = stamp + string
        state = 0
        for place in range(offsets[string], offsets[string + 1]):
            letter = data[place]
            found = _child(state, letter, child_start, children, byte, root)
            while found == 0 and state != 0:
                state = failure[state]
                found = _child(state, letter, child_start, children, byte, root)
            state = found
            ended = state if text_of[state] >= 0 else shorter[state]
            while ended != 0:
                text = text_of[ended]
                last = place == offsets[string + 1] - 1
                if seen[text] != now:
                    if filled == len(out):
                        return string
                    seen[text], seen_last[text] = now, filled
                    out[filled], out_last[filled] = text, False
                    filled += 1
                elif not last:
                    break  # the shorter ones were met with it
                out_last[seen_last[text]] = last
                ended = shorter[ended]
        out_offsets[string + 1] = filled
    return len(offsets) - 1
