"""What could not be used of the subscriptions and events of a command: noted for people as it is read, kept for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.command.terminal import Terminal
from ray_pubsub.errors import Rejection

__all__ = ["BadRows", "noted_rejections"]

SHOWN, KEPT = 10, 1000
"""How many of each kind are noted, and how many are in the JSON. All are counted."""


class BadRows:
    """The bad events, and the attributes that were left out, of all batches of a command."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.bad_events = self.warning_count = 0
        self.errors: list[dict[str, Any]] = []
        self.warnings: list[dict[str, Any]] = []

    def add(self, found: Any, first: int) -> None:
        """Takes note of one batch's result, whose first event has the number `first`."""
        for error in found.errors[: KEPT - len(self.errors)]:
            position = first + (error.position or 0)
            self.errors.append({"position": position, "reason": error.reason})
            if len(self.errors) <= SHOWN:
                self._terminal.note(f"event {position}: {error.reason}", style="yellow")
        for warning in found.warnings[: KEPT - len(self.warnings)]:
            position = first + (warning.position or 0)
            self.warnings.append({"position": position, "attribute": warning.attribute, "reason": warning.reason})
            if len(self.warnings) <= SHOWN:
                self._terminal.note(f"event {position}: left out {warning.attribute}: {warning.reason}", style="yellow")
        self.bad_events += len(found.errors)
        # A server reports only the first warnings of a batch, and how many there are.
        self.warning_count += getattr(found, "warning_count", len(found.warnings))


def noted_rejections(rejections: Sequence[Rejection], terminal: Terminal, more: str = "") -> list[dict[str, Any]]:
    """Notes the first rejected subscriptions and returns all of them for JSON. `more` is said where some are not noted."""
    for each in rejections[:SHOWN]:
        terminal.note(str(each), style="yellow")
    if len(rejections) > SHOWN:
        terminal.note(f"… and {len(rejections) - SHOWN:,} more subscriptions were rejected{more}", style="yellow")
    return [{"position": each.position, "id": each.id, "reason": str(each.error)} for each in rejections]
