"""What is wrong with the events of a batch, while it is read."""

from __future__ import annotations

from ray_pubsub.errors import EventError

__all__ = ["Problems"]


class Problems(dict[int, tuple[str | None, str]]):
    """Row → attribute and reason of an event that is refused; the first problem of a row counts. A value that cannot be used makes its
    event one of those if `strict`; otherwise only the attribute is left out, with a warning."""

    def __init__(self, strict: bool = True) -> None:
        super().__init__()
        self.strict = strict
        self._left_out: dict[tuple[int, str], str] = {}

    def unusable(self, row: int, attribute: str, reason: str) -> None:
        """The value that an event has of an attribute is not one."""
        if self.strict:
            self.setdefault(row, (attribute, reason))
        else:
            self._left_out.setdefault((row, attribute), reason)

    def warnings(self) -> list[EventError]:
        """The attributes that were left out, in the order of the events, but for events that are refused for another reason."""
        found = sorted(self._left_out.items())
        return [EventError(attribute, reason, row) for (row, attribute), reason in found if row not in self]
