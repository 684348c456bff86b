"""Why a subscription did or did not match an event: the expression's tree with the truth of every part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import And, Between, Comparison, Constant, In, Not, Or, Tree, operands
from ray_pubsub.language.truth import Event, truth
from ray_pubsub.language.words import write_operand

__all__ = ["Explanation", "explain_tree"]

MARKS = {True: "✓", False: "✗", None: "?"}


@dataclass(frozen=True, slots=True)
class Explanation:
    """One part of the expression: its text, whether it is true, false or unknown (None), and why; print it to read it."""

    text: str
    truth: bool | None
    reason: str
    parts: tuple[Explanation, ...] = ()

    def __bool__(self) -> bool:
        """Whether it matched."""
        return self.truth is True

    @property
    def matched(self) -> bool:
        return self.truth is True

    def predicates(self) -> Iterator[Explanation]:
        """The predicates, in the order of the text."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.predicates()

    def __str__(self) -> str:
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> Iterator[str]:
        reason = f"   ({self.reason})" if self.reason else ""
        yield f"{'  ' * depth}{MARKS[self.truth]} {self.text}{reason}"
        for part in self.parts:
            yield from part._lines(depth + 1)


def explain_tree(tree: Tree, event: Event) -> Explanation:
    """The explanation of an expression on an event."""
    answer = truth(tree, event)
    match tree:
        case And(children):
            return Explanation("all of", answer, "", tuple(explain_tree(child, event) for child in children))
        case Or(children):
            return Explanation("any of", answer, "", tuple(explain_tree(child, event) for child in children))
        case Not(child):
            return Explanation("not", answer, "", (explain_tree(child, event),))
        case Constant():
            return Explanation(write(tree), answer, "")
        case _:
            value = event.get(tree.attribute)
            reason = "absent" if value is None else f"is {write_operand(value.kind, value.plain)}"
            if answer is None and value is not None:
                comparable = isinstance(tree, Comparison | Between | In) and value.kind in {
                    each.kind for each in operands(tree)
                }
                reason += ", compared with null" if comparable else f", a {value.kind}: cannot be compared"
            return Explanation(write(tree), answer, reason)
