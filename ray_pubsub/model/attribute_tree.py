"""The attributes that are read of an event. Nothing else of it is looked at, converted or checked.

`a.b.c` may be given as one key, or nested in three ways: under `a`, under `a.b`, or under both. A node is the place that a prefix leads to:
it has the keys that are attributes there, and the keys that may lead further.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

__all__ = ["AttributeNode", "AttributeTree", "ReadScope"]


class AttributeNode:
    """The relevant keys of one dictionary."""

    __slots__ = ("attributes", "prefixes")

    def __init__(self) -> None:
        self.attributes: dict[str, str] = {}
        """The attribute of each key that is one."""
        self.prefixes: dict[str, str] = {}
        """For each key whose value may be a dictionary, the prefix of the attributes inside."""

    def add(self, attribute: str, start: int) -> None:
        """Adds an attribute. `start` is the position in its name after the prefix that leads here."""
        dot = attribute.find(".", start)
        while dot >= 0:
            self.prefixes[attribute[start:dot]] = attribute[:dot]
            dot = attribute.find(".", dot + 1)
        self.attributes[attribute[start:]] = attribute


class ReadScope(NamedTuple):
    """What was read of events: the first `size` attributes of a tree."""

    tree: AttributeTree
    size: int

    def missing(self, wanted: AttributeTree) -> str | None:
        """Returns an attribute that was not read, or None if all were."""
        if self.tree is wanted and self.size == len(wanted):
            return None
        return min(set(wanted).difference(islice(self.tree, self.size)), default=None)


class AttributeTree:
    """A set of attribute names that only grows, so that a reader may look up while a writer adds; to iterate over the keys, copy them to
    a list first."""

    __slots__ = ("_growing", "_inside", "_listed", "_nodes", "key_table", "root")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.root = AttributeNode()
        self._inside: dict[str, list[str]] = {}
        self._nodes: dict[str, AttributeNode] = {}
        self._listed: list[str] = []
        self._growing = threading.Lock()
        self.key_table: Any = None
        """A place where columns/json/key_table.py stores how the attributes are found in JSON."""
        for name in names:
            self.add(name)

    def __len__(self) -> int:
        return len(self.root.attributes)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.root.attributes))

    def __contains__(self, name: str) -> bool:
        return name in self.root.attributes

    def listed(self) -> list[str]:
        """Returns all names, in a list that must not be changed. It is a new list only if names were added."""
        if len(self._listed) != len(self):
            self._listed = list(self.root.attributes)
        return self._listed

    @property
    def scope(self) -> ReadScope:
        """The attributes that there are now. It must be taken before reading, because a read that starts later covers at least these."""
        return ReadScope(self, len(self))

    def leads_to(self, name: str) -> bool:
        """Returns whether a value of this name is relevant: as an attribute, or for what is nested in it."""
        return name in self.root.attributes or name in self.root.prefixes

    def add(self, name: str) -> None:
        with self._growing:
            if name in self.root.attributes:
                return
            dot = name.find(".")
            while dot >= 0:
                prefix = name[:dot]
                self._inside.setdefault(prefix, []).append(name)
                if prefix in self._nodes:
                    self._nodes[prefix].add(name, dot + 1)
                dot = name.find(".", dot + 1)
            self.root.add(name, 0)

    def node(self, prefix: str | None) -> AttributeNode:
        """Returns the node that a prefix leads to; None stands for the root. It is created on first use, because a name with a thousand
        dots would have a thousand nodes."""
        if prefix is None:
            return self.root
        node = self._nodes.get(prefix)
        if node is None:
            with self._growing:
                node = AttributeNode()
                for name in self._inside.get(prefix, ()):
                    node.add(name, len(prefix) + 1)
                node = self._nodes.setdefault(prefix, node)
        return node

    def __reduce__(self) -> tuple[type[AttributeTree], tuple[list[str]]]:
        return AttributeTree, (list(self),)
