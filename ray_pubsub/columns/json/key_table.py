"""The keys of JSON objects that lead to the attributes of a tree, in the form that kernels/json/scan.py looks up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_pubsub.columns.string_hashes import SEED
from ray_pubsub.kernels.json.scan import Keys, build_keys
from ray_pubsub.model.arguments import is_unicode
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.text_column import TextColumn

__all__ = ["KeyTable", "key_table"]

MOST_DOTS = 16
"""A name with n dots has n² / 2 keys in n nodes, so names with more dots are not put into a table."""


class KeyTable(NamedTuple):
    """The attributes to look for in JSON documents, as keys for the scanner."""

    names: list[str]
    """The attributes, by number."""
    keys: Keys
    size: int
    """The number of attributes that the tree had."""
    event_id: str | None
    every: bool


def key_table(tree: AttributeTree, event_id: str | None, every: bool = False) -> KeyTable | None:
    """Returns the keys of the tree's current attributes and of the event's id; None if a name has too many dots. The table is cached in
    the tree. `every`: all attributes are read, and the tree has those known so far."""
    known: KeyTable | None = tree.key_table
    if known is not None and (known.size, known.event_id, known.every) == (len(tree), event_id, every):
        return known
    size = len(tree)
    if any(name.count(".") > MOST_DOTS for name in tree) or not is_unicode(event_id or ""):
        return None
    table = tree.key_table = _table(tree, size, event_id, every)
    return table


def _table(tree: AttributeTree, size: int, event_id: str | None, every: bool) -> KeyTable:
    nodes: dict[str | None, int] = {None: 0}
    numbers: dict[str, int] = {}
    texts: list[str] = []
    node_of, attribute, inner = [], [], []
    waiting: list[str | None] = [None]
    identity = -1
    while waiting:
        prefix = waiting.pop()
        node = tree.node(prefix)
        attributes, prefixes = dict(list(node.attributes.items())), dict(list(node.prefixes.items()))
        # A name with half of a surrogate pair needs an escape in JSON, and documents with such keys are not read by this table.
        keys = dict.fromkeys(key for key in (*attributes, *prefixes) if is_unicode(key))
        if prefix is None and event_id is not None:
            keys[event_id] = None
            identity = len(texts) + list(keys).index(event_id)
        for key in keys:
            if key in prefixes and prefixes[key] not in nodes:
                nodes[prefixes[key]] = len(nodes)
                waiting.append(prefixes[key])
            texts.append(key)
            node_of.append(nodes[prefix])
            attribute.append(numbers.setdefault(attributes[key], len(numbers)) if key in attributes else -1)
            inner.append(nodes[prefixes[key]] if key in prefixes else -1)
    data, start, stop = TextColumn.encoded(texts).bytes
    where = np.array(node_of, dtype=np.int64)
    slots = build_keys(data, start, stop, where, SEED)
    entries = slots, data, start, stop, where, np.array(attribute, np.int64), np.array(inner, np.int64)
    return KeyTable(list(numbers), Keys(*entries, identity, every), size, event_id, every)
