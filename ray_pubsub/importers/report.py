"""The result of an import: rules in our language, and those that cannot be expressed, with the reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from ray_pubsub.errors import ExpressionError, Rejection, RuleFormatError, counted
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.settings import Limits

__all__ = ["ImportReport", "ImportedRule", "import_rules", "numbered"]

SHOWN = 3


@dataclass(frozen=True, slots=True)
class ImportedRule:
    """A rule as `MatchIndex.add` and `Server.subscribe` take it."""

    id: str | int
    expression: str
    data: Any = None
    tags: tuple[str, ...] = ()


class RuleColumns(TypedDict):
    """Arguments of `add_many` and `subscribe_many`."""

    ids: list[str | int]
    expressions: list[str]
    data: list[Any]
    tags: list[list[str]]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The rules that can be expressed, and the others by position, with the reason. Printing it shows the first few of the latter."""

    rules: list[ImportedRule] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[ImportedRule]:
        return iter(self.rules)

    def columns(self) -> RuleColumns:
        """Arguments for `index.add_many(**report.columns())` and `server.subscribe_many(**report.columns(), subscriber=…)`."""
        return RuleColumns(
            ids=[rule.id for rule in self.rules],
            expressions=[rule.expression for rule in self.rules],
            data=[rule.data for rule in self.rules],
            tags=[list(rule.tags) for rule in self.rules],
        )

    def __str__(self) -> str:
        shown = [str(rejection) for rejection in self.rejections[:SHOWN]]
        left = len(self.rejections) - len(shown)
        more = [f"… and {counted(left, 'rejection')} more in .rejections"] if left else []
        return "\n".join([f"{len(self.rules):,} imported, {len(self.rejections):,} rejected", *shown, *more])

    def __repr__(self) -> str:
        return f"ImportReport({len(self.rules):,} imported, {len(self.rejections):,} rejected)"


def numbered(rules: Any, format: str) -> Iterable[tuple[Any, Any]]:
    """Yields ids and rules: the items of a mapping, or positions and items of any other iterable."""
    if isinstance(rules, Mapping):
        return rules.items()
    if isinstance(rules, str | bytes) or not isinstance(rules, Iterable):
        raise RuleFormatError(format, "give a dict of ids and rules, or a list of rules")
    return enumerate(rules)


def import_rules(
    rules: Iterable[tuple[Any, Any]], translate: Callable[[Any, Any], ImportedRule], format: str
) -> ImportReport:
    """Translates each rule; one that cannot be translated, or exceeds the limits, is rejected and does not affect the others."""
    report, shapes = ImportReport(), ShapeCache(Limits())
    for position, (id, rule) in enumerate(rules):
        try:
            found = translate(id, rule)
            shapes.parse(found.expression)
        except (RuleFormatError, ExpressionError) as error:
            report.rejections.append(Rejection(position, id, error))
        except RecursionError:
            report.rejections.append(Rejection(position, id, RuleFormatError(format, "it is nested too deeply")))
        else:
            report.rules.append(found)
    return report
