"""Commands that need no server and no Ray: match, warm-up, bench, and explain with subscriptions from a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.command.bad_rows import BadRows, noted_rejections
from actors.command.data_files import STDIN, check_input, check_output, event_batches, read_subscriptions, write_rows
from actors.command.terminal import DONE_IN_PART, Json, Terminal, WithData, json_cell, note_if_typed, write_json
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.errors import SettingError, counted
from ray_pubsub.kernels.readiness import VARIABLE

__all__ = ["bench", "explain_in_process", "loaded_index", "match", "parsed_event", "parsed_json", "warm_up"]

ENGINES = f"One of {', '.join(engine_names())}."
CHECKED = 20
"""The number of a benchmark's events whose matches are compared with those of the reference, which takes a second for each million
pairs."""


def match(
    subscriptions: Annotated[
        str, typer.Argument(metavar="SUBSCRIPTIONS", help="CSV, JSON lines or Parquet with id and expression.")
    ],
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="JSON lines, CSV or Parquet; - for JSON lines from stdin.")
    ],
    event_id: Annotated[
        str | None, typer.Option(help="The attribute that names an event (default: its number, from 0).")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write matches to this file (csv, jsonl, parquet).")
    ] = None,
    engine: Annotated[str, typer.Option(help=ENGINES)] = "auto",
    ignore_case: Annotated[bool, typer.Option("--ignore-case", help="Compare all texts in lower case.")] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Refuse events with a value that cannot be used, not only that value."),
    ] = False,
    with_data: WithData = False,
    as_json: Json = False,
) -> None:
    """Match events in a file against subscriptions in a file, in this process.

    Writes a line for each match: the event, a tab, the subscription.

    With --json a document for each event, and a last one with counts, rejections, errors and warnings.
    """
    terminal, bad = Terminal(as_json), BadRows(Terminal(as_json))
    if subscriptions == events == STDIN:
        raise SettingError("events", "and subscriptions cannot both come from stdin")
    check_input(events)
    if output is not None:
        check_output(output)
    index, rejections = loaded_index(subscriptions, engine, ignore_case, terminal)
    note_if_typed(events, terminal)
    counts = {"subscriptions": len(index), "rejected": len(rejections), "events": 0, "matches": 0}
    began = time.perf_counter()
    rows = _matched(index, event_batches(events), {"event_id": event_id, "strict": strict}, with_data, counts, bad)
    columns = ("event_id", "subscription_id", *(("data", "tags") if with_data else ()))
    if output is not None:
        carried = ((event, *match) for event, *matches in rows for match in zip(*matches, strict=True))
        write_rows(output, (dict(zip(columns, _cells(row), strict=True)) for row in carried), columns)
    else:
        for event, ids, *more in rows:
            if as_json:
                write_json({"event_id": event, "subscription_ids": ids, **dict(zip(columns[2:], more, strict=True))})
            else:
                for id, *each in zip(ids, *more, strict=True):
                    print(event, id, *map(json_cell, each), sep="\t")
    seconds = time.perf_counter() - began
    if as_json:
        write_json({
            **counts, "bad_events": bad.bad_events, "warning_count": bad.warning_count, "seconds": seconds,
            "rejections": rejections, "errors": bad.errors, "warnings": bad.warnings,
        })  # fmt: skip
    terminal.note(
        f"{counts['matches']:,} matches of {counted(counts['events'], 'event')} with {counted(len(index), 'subscription')}, {seconds:.2f} s"
    )
    if rejections or bad.bad_events:
        raise typer.Exit(DONE_IN_PART)


def _cells(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns a row for a file: data and tags as `export` writes them."""
    event, id, *more = row
    if not more:
        return event, id
    data, tags = more
    return event, id, None if data is None else json.dumps(data, ensure_ascii=False), ",".join(tags) or None


def _matched(
    index: Any,
    batches: Iterable[Any],
    reading: Mapping[str, Any],
    with_data: bool,
    counts: dict[str, int],
    bad: BadRows,
) -> Iterator[tuple[Any, ...]]:
    """Yields every event with the subscriptions that match it and, `with_data`, their data and their tags. Bad events are reported as they
    are read. `reading`: the event_id and strict of match_many."""
    for batch in batches:
        found = (index.match_json if isinstance(batch, bytes) else index.match_many)(batch, **reading)
        first, names, offsets = counts["events"], found.event_ids.tolist(), found.offsets.tolist()
        carried = (found.data(), found.tags()) if with_data else ()
        bad.add(found, first)
        counts["events"] += len(names)
        counts["matches"] += len(found)
        for position, ids in enumerate(found):
            own = slice(offsets[position], offsets[position + 1])
            yield (
                first + position if reading["event_id"] is None else names[position],
                ids,
                *(each[own] for each in carried),
            )


def loaded_index(path: str, engine: str, ignore_case: bool, terminal: Terminal) -> tuple[Any, list[dict[str, Any]]]:
    """Returns an index of the subscriptions in a file, and those that were rejected, which are noted."""
    from ray_pubsub import MatchIndex

    index, table = MatchIndex(engine, ignore_case=ignore_case), read_subscriptions(path)
    report = index.add_table(table) if "expression" in table.schema.names else index.add_predicates(table)
    return index, noted_rejections(report.rejections, terminal)


def explain_in_process(event: str, id: str | None, subscriptions: str, ignore_case: bool, terminal: Terminal) -> None:
    """Explains an event with the subscriptions of a file."""
    index, rejections = loaded_index(subscriptions, "auto", ignore_case, terminal)
    found = (
        index.explain(parsed_event(event)) if id is None else index.explain(parsed_event(event), known_id(id, index))
    )
    facts = explained(found)
    terminal.result({**facts, "rejections": rejections} if rejections else facts, str(found))


def known_id(id: str, known: Any) -> str | int:
    """Returns the id that exists. Ids are texts or numbers, but on a command line all are texts."""
    if id not in known and id.lstrip("-").isdecimal() and int(id) in known:
        return int(id)
    return id


def explained(found: Any) -> Any:
    """Converts an explanation or a plan for JSON."""
    if not hasattr(found, "truth"):
        return found.to_dict()
    parts = {"parts": [explained(part) for part in found.parts]} if found.parts else {}
    return {"expression": found.expression, "truth": found.truth, "reason": found.reason, **parts}


def parsed_event(text: str) -> dict[str, Any]:
    """Parses an event that is given as JSON, or as @file."""
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise SettingError("event", f"{text[1:]} cannot be read: {error.strerror or error}") from error
    try:
        event = json.loads(text)
    except ValueError as error:
        raise SettingError("event", f"must be JSON such as '{{\"price\": 5}}', or @file: {error}") from None
    if not isinstance(event, dict):
        raise SettingError("event", f"must be a JSON object such as '{{\"price\": 5}}', not {text[:40]}")
    return event


def parsed_json(option: str, text: str) -> Any:
    """Parses a JSON value of the command line."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise SettingError(option, f'must be JSON such as \'{{"title": "cheap"}}\': {error}') from None


def warm_up(as_json: Json = False) -> None:
    """Compile all kernels now, so that no later process waits for it: a minute or two, once for each installation."""
    os.environ[VARIABLE] = "now"
    from ray_pubsub.warming.warm_up import warm_up as compile_all

    terminal, began = Terminal(as_json), time.perf_counter()
    compile_all(progress=not as_json)
    seconds = time.perf_counter() - began
    terminal.result({"compiled": True, "seconds": round(seconds, 1)}, f"all kernels are compiled ({seconds:.0f} s)")


def bench(
    subscriptions: Annotated[int, typer.Option(min=1, help="How many; each constrains 10 attributes.")] = 100_000,
    events: Annotated[int, typer.Option(min=CHECKED, help="How many events are matched in batches.")] = 10_000,
    engine: Annotated[str, typer.Option(help=ENGINES)] = "auto",
    as_json: Json = False,
) -> None:
    """How fast this machine matches, in one process: a generated workload, its results checked against the reference.

    The project's own benchmarks, with other workloads and the server, run from a clone by `make bench`.
    """
    os.environ[VARIABLE] = "now"
    from ray_pubsub import MatchIndex
    from ray_pubsub.workloads import dense

    terminal = Terminal(as_json)
    terminal.note("generating the workload, and compiling kernels if that was not done before")
    work = dense(subscriptions, events=2 * events)
    table, dicts = work.predicates(), work.event_dicts()
    dicts, others = dicts[:events], dicts[events:]
    index, began = MatchIndex(engine), time.perf_counter()
    index.add_predicates(table)
    loading = time.perf_counter() - began
    index.match_many(
        others
    )  # as large a batch as the measured one, of other events: compiled code is loaded, and no answer is remembered
    index.match(others[0])
    began = time.perf_counter()
    found = index.match_many(dicts)
    batch = (time.perf_counter() - began) / events
    began = time.perf_counter()
    for event in dicts[:200]:
        index.match(event)
    single = (time.perf_counter() - began) / min(200, events)
    checked = _checked(work, found)
    facts = {
        "subscriptions": subscriptions, "events": events, "matches": len(found), "engine": engine, "load_seconds": loading,
        "batch_ms_per_event": 1e3 * batch, "single_ms_per_event": 1e3 * single, "bytes_per_subscription": index.nbytes / subscriptions,
        "equals_reference": checked,
    }  # fmt: skip
    terminal.result(
        facts,
        f"{subscriptions:,} subscriptions on 10 attributes, loaded in {loading:.1f} s, {index.nbytes / subscriptions:.0f} bytes each\n"
        f"one batch of {events:,} dicts: {1 / batch:,.0f} events/s, {1e3 * batch:.3f} ms and {len(found) / events:.1f} matches each\n"
        f"one dict at a time: {1 / single:,.0f} events/s, {1e3 * single:.3f} ms each\n"
        f"matches of {CHECKED} events {'equal' if checked else 'DIFFER FROM'} the reference's",
    )
    if not checked:
        raise typer.Exit(DONE_IN_PART)


def _checked(work: Any, found: Any) -> bool:
    """Returns whether the matches of the first events equal those of a comparison of every interval."""
    import numpy as np

    first = work.offsets[:-1]
    for number in range(CHECKED):
        cells = slice(int(work.event_offsets[number]), int(work.event_offsets[number + 1]))
        values = np.full(work.attributes, -1, np.int64)
        values[work.event_attribute[cells]] = work.event_value[cells]
        holds = (work.low <= values[work.attribute]) & (values[work.attribute] <= work.high)
        matching = np.flatnonzero(np.logical_and.reduceat(holds, first))
        if sorted(found[number]) != matching.tolist():
            return False
    return True
