"""Formats a plan as tables for people."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ray_pubsub.engines.explain.plan import IndexPlan, Pipeline, SegmentPlan, Step

__all__ = ["rendered", "written"]

WIDTH = 80
MOST_PIPELINES = 8
"""Pipelines shown for a segment, those with the most clauses first: an event with hundreds of attributes has hundreds of pivots."""

MOST_COMPUTED = 20
"""The largest number of computed attributes shown."""


def written(plan: IndexPlan) -> str:
    """Returns plain text, the same for every terminal."""
    console = Console(file=StringIO(), width=WIDTH, force_terminal=False, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(rendered(plan))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def rendered(plan: IndexPlan) -> Group:
    """Returns the tables for any rich console."""
    return Group(*_parts(plan))


def _parts(plan: IndexPlan) -> Iterator[RenderableType]:
    clauses = sum(part.clauses + part.shared for part in plan.parts)
    parts = ((len(plan.segments), "segment"), (len(plan.tails), "tail"), (clauses, "clause"))
    sizes = ", ".join(_counted(number, noun) for number, noun in parts if number)
    yield Text(f"{_counted(plan.matches, 'match')} in {_time(plan.seconds)}; {sizes or 'nothing to match'}")
    for name, value in plan.computed[:MOST_COMPUTED]:
        yield Text(f"computed: {name} is {value}")
    if len(plan.computed) > MOST_COMPUTED:
        yield Text(f"… and {len(plan.computed) - MOST_COMPUTED:,} more computed attributes")
    for part in plan.parts:
        yield Text()
        yield from _segment(part)
    after = [
        (plan.removed, "left out: the subscription was removed"),
        (plan.repeated, "left out: the subscription has matched already"),
        (plan.asked, f"asked in full, as clauses do not decide them: {plan.refused:,} not true"),
    ]
    if any(number for number, _ in after):
        yield Text()
    for number, text in after:
        if number:
            yield Text(f"{number:,} {text}")


def _segment(part: SegmentPlan) -> Iterator[RenderableType]:
    heading = Text(part.engine, style="bold")
    sizes = [f"  {_counted(part.clauses, 'clause')}"]
    if part.shared:
        sizes.append(f"{part.shared:,} equal to them")
    if part.verified:
        sizes.append(f"{part.verified:,} compared")
    sizes += [_counted(part.matches, "match"), _time(part.seconds)]
    if part.cached:
        sizes.append("in the cache for batches")
    heading.append(", ".join(sizes), style="not bold")
    yield heading
    partitions = part.partitions
    if partitions.visited + partitions.skipped > 1:
        yield Text(
            f"{partitions.of}: {partitions.visited:,} visited ({_counted(partitions.clauses_visited, 'clause')}), "
            f"{partitions.skipped:,} skipped ({_counted(partitions.clauses_skipped, 'clause')})"
        )
    if not part.pipelines:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("clauses", "attribute", "method"):
        table.add_column(name, overflow="fold")
    for name in ("estimated", "actual"):
        table.add_column(name, justify="right", no_wrap=True)
    shown = sorted(part.pipelines, key=_met, reverse=True)[:MOST_PIPELINES]
    for pipeline in shown:
        first = Text(f"{pipeline.of}: {pipeline.clauses:,}")
        for number, step in enumerate(pipeline.steps):
            last = number == len(pipeline.steps) - 1
            table.add_row(first if number == 0 else "", *_cells(step), end_section=last and pipeline is not shown[-1])
    yield table
    others = len(part.pipelines) - len(shown)
    if others:
        met = sum(map(_met, part.pipelines)) - sum(map(_met, shown))
        matches = sum(pipeline.matches for pipeline in part.pipelines) - sum(pipeline.matches for pipeline in shown)
        yield Text(f"and {others:,} more, which met {_counted(met, 'clause')}: {_counted(matches, 'match')}")


def _met(pipeline: Pipeline) -> int:
    """Returns the number of clauses left by the first step, which all other steps work on."""
    return pipeline.steps[0].actual if pipeline.steps else pipeline.clauses


def _cells(step: Step) -> tuple[RenderableType, ...]:
    return Text(step.attribute), Text(step.method), Text(_estimate(step.estimated)), Text(f"{step.actual:,}")


def _estimate(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,.1f}" if number < 100 else f"{number:,.0f}"


def _counted(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"
