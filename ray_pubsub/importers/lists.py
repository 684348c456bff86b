"""Which fields of events may be lists: of values, or of objects whose fields are meant by the names after the dot."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.conditions import Condition, any_of
from ray_pubsub.importers.field import Field, elements

__all__ = ["MOST_LEVELS", "Lists"]

MOST_LEVELS = 6
"""Objects within objects, any of which may be a list. Each level doubles the length of an expression."""


@dataclass(frozen=True, slots=True)
class Lists:
    """Which fields of the events may be lists."""

    names: frozenset[str] | None
    """None: every field may be a list."""
    objects: frozenset[str] = frozenset()
    """Those that are none."""

    @classmethod
    def of(cls, given: bool | Collection[str]) -> Lists:
        """Reads the argument of an importer: whether all fields may be lists, or the names of those that may."""
        if isinstance(given, str):
            return cls(frozenset([given]))
        return cls(None if given is True else frozenset(given or ()))

    def may(self, name: str) -> bool:
        """Returns whether the field of this name, from the beginning of the event, may be a list."""
        return name not in self.objects and (self.names is None or name in self.names)

    def without(self, name: str) -> Lists:
        """Returns the same, but for a field that is an object and no list."""
        return replace(self, objects=self.objects | {name})

    def tested(
        self, name: str, format: str, test: Callable[[Field], Condition], *, outer: str = "", within: str = ""
    ) -> Condition:
        """Returns the test of a field, wherever on its way lists may be. `outer`: the names that lead to the element in which `name` is
        looked up, with a dot at the end; `within`: those of objects that are no lists, before `name`."""
        if self.names is None and name.count(".") > MOST_LEVELS:
            raise RuleFormatError(
                format, f"{name} has more than {MOST_LEVELS} dots; name the fields that are lists in lists="
            )
        outer += within
        found = [test(Field(within + name, format, lists=self.may(outer + name)))]
        for place, character in enumerate(name):
            before, after = name[:place], name[place + 1 :]
            if character == "." and before and after and self.may(outer + before):
                found.append(elements(within + before, self.tested(after, format, test, outer=f"{outer}{before}.")))
        return any_of(found)
