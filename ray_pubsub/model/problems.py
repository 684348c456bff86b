"""The problems that are found in the events of a batch while it is read."""

from __future__ import annotations

from ray_pubsub.errors import EventError

__all__ = ["Problems"]


class Problems(dict[int, tuple[str | None, str]]):
    """For each row of an event that is refused, the attribute and reason of its first problem. With `strict` a value that cannot be used
    is such a problem; otherwise only the attribute is left out, with a warning."""

    def __init__(self, strict: bool = True) -> None:
        super().__init__()
        self.strict = strict
        self._left_out: dict[tuple[int, str], str] = {}

    def unusable(self, row: int, attribute: str, reason: str) -> None:
        """Records that an attribute's value cannot be used."""
        if self.strict:
            self.setdefault(row, (attribute, reason))
        else:
            self._left_out.setdefault((row, attribute), reason)

    def warnings(self) -> list[EventError]:
        """Returns the attributes that were left out, in the order of the events, except for events that are refused for another reason."""
        found = sorted(self._left_out.items())
        return [EventError(attribute, reason, row) for (row, attribute), reason in found if row not in self]
