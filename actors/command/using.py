"""Commands that use a server: subscribe, unsubscribe, load, export, publish, listen, explain."""

from __future__ import annotations

import time
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from actors.command.bad_rows import BadRows, noted_rejections
from actors.command.data_files import (
    check_input,
    check_output,
    ending,
    event_batches,
    flat_row,
    read_subscriptions,
    stored_row,
    write_rows,
)
from actors.command.in_process import explain_in_process, explained, parsed_event, parsed_json
from actors.command.terminal import (
    DONE_IN_PART,
    Address,
    DataDir,
    Json,
    ServerName,
    Terminal,
    WithData,
    connected,
    json_cell,
    note_if_typed,
    write_json,
)
from ray_pubsub.errors import SettingError, UnknownSubscriptionError, counted

if TYPE_CHECKING:
    from actors.client.server import Server

__all__ = ["explain", "export", "listen", "load", "publish", "subscribe", "unsubscribe"]

POLLED, WAIT = 500, 2.0


def subscribe(
    subscriber: Annotated[str, typer.Argument(metavar="SUBSCRIBER", help="Whose subscription it is.")],
    expression: Annotated[
        str,
        typer.Argument(metavar="EXPRESSION", help="A WHERE clause, such as \"price < 5 and model like 'iphone%'\"."),
    ],
    id: Annotated[str | None, typer.Option(help="An id of your own; one that exists is replaced.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A name to select it by; may be given several times.")] = None,
    data: Annotated[
        str | None, typer.Option(help='JSON that comes back with its matches on request, such as \'{"title": "…"}\'.')
    ] = None,
    name: ServerName = None,
    address: Address = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Add a subscription, or replace the one with this id."""
    carried = None if data is None else parsed_json("data", data)
    with connected(name, address, data_dir) as server:
        stored = None if id is None else _replaced_id(server, id)
        given = server.subscribe(subscriber, expression, id=stored, data=carried, tags=tag or ())
    Terminal(as_json).result({"id": given, "subscriber": subscriber}, str(given))


def unsubscribe(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Subscriptions to remove.")] = None,
    tag: Annotated[str | None, typer.Option(help="All that have this tag, instead of ids.")] = None,
    name: ServerName = None,
    address: Address = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Remove subscriptions, by id or by tag. Exits with 1 if an id does not exist; the others are removed."""
    if bool(ids) == (tag is not None):
        raise SettingError("ids", "give ids or --tag, and not both")
    terminal, unknown = Terminal(as_json), []
    with connected(name, address, data_dir) as server:
        removed = 0 if tag is None else server.unsubscribe_many(tag=tag)
        for id in ids or ():
            try:
                removed += server.unsubscribe(_stored_id(server, id))
            except UnknownSubscriptionError as error:
                unknown.append(id)
                terminal.note(str(error), style="yellow")
    terminal.result({"removed": removed, "unknown": unknown}, f"{counted(removed, 'subscription')} removed")
    if unknown:
        raise typer.Exit(DONE_IN_PART)


def load(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="CSV, JSON lines or Parquet: id, subscriber, expression, and maybe data (JSON) and tags; "
            "or id, subscriber, attribute, low, high.",
        ),
    ],
    subscriber: Annotated[str | None, typer.Option(help="Of all of them, if the file has no such column.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="For all of them, instead of a column tags.")] = None,
    atomic: Annotated[bool, typer.Option("--atomic", help="All or none.")] = False,
    rejected: Annotated[
        Path | None, typer.Option(help="Write rejected rows with their reasons to this file, as JSON lines.")
    ] = None,
    name: ServerName = None,
    address: Address = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Load many subscriptions from a file. Exits with 1 if some were rejected."""
    if rejected is not None:
        check_output(str(rejected))
    terminal, table = Terminal(as_json), read_subscriptions(file)
    if subscriber is None and "subscriber" not in table.schema.names:
        raise SettingError("subscriber", f"is no column of {file}; --subscriber says whose subscriptions they are")
    with connected(name, address, data_dir) as server:
        began = time.perf_counter()
        report = server.subscribe_many(
            table, subscriber=subscriber, tags=tag, atomic=atomic, progress=terminal.notes.is_terminal and not as_json
        )
        seconds = time.perf_counter() - began
    where = f"; they are in {rejected}" if rejected is not None else "; --rejected FILE writes all"
    rows = noted_rejections(report.rejections, terminal, where)
    if rejected is not None:
        write_rows(str(rejected), rows, ("position", "id", "reason"))
    terminal.result(
        {"added": report.added, "rejected": len(rows), "seconds": seconds, "rejections": rows},
        f"{counted(report.added, 'subscription')} loaded in {seconds:.1f} s, {len(rows):,} rejected",
    )
    if rows:
        raise typer.Exit(DONE_IN_PART)


def export(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Where to: .jsonl, .csv or .parquet; - for JSON lines on stdout.")
    ],
    subscriber: Annotated[str | None, typer.Option(help="Only this one's.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only those that have this tag.")] = None,
    name: ServerName = None,
    address: Address = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Write all subscriptions to a file that `load` reads."""
    check_output(file)
    with connected(name, address, data_dir) as server:
        rows = map(stored_row if ending(file) == "jsonl" else flat_row, server.subscriptions(subscriber, tag=tag))
        count = write_rows(file, rows, ("id", "subscriber", "expression", "data", "tags"))
    terminal = Terminal(as_json)
    if file == "-":
        terminal.note(f"{counted(count, 'subscription')} exported")
    else:
        terminal.result({"exported": count, "file": file}, f"{counted(count, 'subscription')} exported to {file}")


def publish(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines, CSV or Parquet; - for JSON lines from stdin.")
    ] = "-",
    event_id: Annotated[
        str | None, typer.Option(help="The attribute that names an event: one published before is not delivered again.")
    ] = None,
    match_only: Annotated[bool, typer.Option("--match-only", help="Match, and deliver nothing.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse events with a value that cannot be used, not only that value.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Write a line for each match: event, subscription, subscriber, priority.")
    ] = False,
    with_data: WithData = False,
    name: ServerName = None,
    address: Address = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Publish events. Those that come through a pipe are published as they come. Exits with 1 if some were bad or refused.

    With --json a document with counts, errors, warnings and the moment that now() stood for; with --show one for each match before it.
    """
    terminal, show = Terminal(as_json), show or with_data
    bad, moment = BadRows(terminal), None
    counts = dict.fromkeys(("events", "bad_events", "warnings", "matches", "delivered", "duplicates", "rejected"), 0)
    check_input(file)
    with connected(name, address, data_dir) as server:
        note_if_typed(file, terminal)
        for batch in event_batches(file):
            call = server.publish_json if isinstance(batch, bytes) else server.publish
            result = call(batch, event_id=event_id, deliver=not match_only, strict=strict)
            bad.add(result, counts["events"])
            moment = result.moment if moment is None else moment
            if show:
                _show(result, with_data, terminal)
            counts["events"] += len(result.event_ids)
            counts["matches"] += len(result)
            for field in ("delivered", "duplicates", "rejected"):
                counts[field] += getattr(result.deliveries, field)
    counts |= {"bad_events": bad.bad_events, "warnings": bad.warning_count}
    summary = _summary(counts)
    del counts["warnings"]
    facts = {
        **counts, "warning_count": bad.warning_count, "moment": moment, "errors": bad.errors, "warnings": bad.warnings,
    }  # fmt: skip
    if as_json or not show:
        terminal.result(facts, summary)
    else:
        terminal.note(summary)
    if bad.bad_events or counts["rejected"]:
        raise typer.Exit(DONE_IN_PART)


def _summary(counts: dict[str, int]) -> str:
    """Returns the counts of a publication for people; those of what went wrong only if there are any."""
    always = (counted(counts["events"], "event"), counted(counts["matches"], "match", "matches"))
    sometimes = (
        (counts["bad_events"], counted(counts["bad_events"], "bad event")),
        (counts["warnings"], counted(counts["warnings"], "warning")),
        (counts["duplicates"], counted(counts["duplicates"], "duplicate")),
        (counts["rejected"], f"{counts['rejected']:,} rejected by full mailboxes"),
    )
    return ", ".join((*always, f"{counts['delivered']:,} delivered", *(text for count, text in sometimes if count)))


def _show(result: Any, with_data: bool, terminal: Terminal) -> None:
    # Priorities are of events, and an event may have several matches.
    levels = zip(result.priorities.tolist(), result.counts().tolist(), strict=True)
    priorities = chain.from_iterable(repeat(level, count) for level, count in levels)
    rows = zip(result.pairs(), result.subscribers.tolist(), priorities, strict=True)
    carried = zip(result.data(), result.tags(), strict=True) if with_data else repeat(())
    for ((event, id), subscriber, priority), (*more,) in zip(rows, carried, strict=False):
        if terminal.as_json:
            facts = {"event_id": event, "subscription_id": id, "subscriber": subscriber, "priority": priority}
            write_json({**facts, **dict(zip(("data", "tags"), more, strict=False))})
        else:
            print(event, id, subscriber, priority, *map(json_cell, more), sep="\t")


def listen(
    subscriber: Annotated[str, typer.Argument(metavar="SUBSCRIBER", help="Whose deliveries to write.")],
    limit: Annotated[int | None, typer.Option(min=1, help="End after this many.")] = None,
    idle: Annotated[float | None, typer.Option(min=0.0, help="End when none has come for this many seconds.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Do not acknowledge: they come again.")] = False,
    with_data: WithData = False,
    name: ServerName = None,
    address: Address = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Write a subscriber's deliveries as they come, the most urgent first, and acknowledge them. Ctrl-C ends it."""
    left = limit
    with connected(name, address, data_dir) as server:
        last = time.monotonic()
        while left is None or left > 0:
            wait = WAIT if idle is None else max(0.0, min(WAIT, last + idle - time.monotonic()))
            most = POLLED if left is None else min(POLLED, left)
            found = server.poll(subscriber, limit=most, wait=wait, with_data=with_data)
            for each in found:
                _write_delivery(each, with_data, as_json)
            if found:
                last = time.monotonic()
                if keep:
                    server.release(found)
                    return
                server.ack(found)  # only after they are written, so that those that a crash interrupts come again
                left = None if left is None else left - len(found)
            elif idle is not None and time.monotonic() >= last + idle:
                return


def _write_delivery(delivery: Any, with_data: bool, as_json: bool) -> None:
    carried = {"data": delivery.data, "tags": delivery.tags} if with_data else {}
    if as_json:
        facts = {
            "subscription_id": delivery.subscription_id, "priority": delivery.priority, "attempt": delivery.attempt,
            "event_id": delivery.event_id, "event": delivery.event,
        }  # fmt: skip
        write_json({**facts, **carried})
    else:
        cells = map(json_cell, (delivery.event, *carried.values()))
        print(delivery.priority, delivery.subscription_id, *cells, sep="\t", flush=True)


def explain(
    event: Annotated[str, typer.Argument(metavar="EVENT", help="JSON such as '{\"price\": 5}', or @file.")],
    id: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="A subscription: why did it (not) match? Without: how is the event matched?"),
    ] = None,
    subscriptions: Annotated[
        str | None, typer.Option("--subscriptions", help="A file of subscriptions, instead of a server.")
    ] = None,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", help="Of texts, with --subscriptions; a server knows how it compares.")
    ] = False,
    name: ServerName = None,
    address: Address = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Why a subscription does or does not match an event; without an id, how the event is matched."""
    terminal = Terminal(as_json)
    if subscriptions is not None:
        if (name, address, data_dir) != (None, None, None):
            raise SettingError("subscriptions", "are explained in this process; leave out the server")
        explain_in_process(event, id, subscriptions, ignore_case, terminal)
        return
    if ignore_case:
        raise SettingError("ignore_case", "is for --subscriptions; a server was started with it or without")
    parsed = parsed_event(event)
    with connected(name, address, data_dir) as server:
        found: Any = server.explain(parsed) if id is None else server.explain(parsed, _stored_id(server, id))
    terminal.result(explained(found), str(found))


def _replaced_id(server: Server, id: str) -> str | int:
    """Returns the id of the subscription that is replaced: the number 7, if it exists, and no text 7 beside it."""
    if not id.lstrip("-").isdecimal():
        return id
    try:
        return _stored_id(server, id)
    except UnknownSubscriptionError:
        return id


def _stored_id(server: Server, id: str) -> str | int:
    """Returns the id that exists. Ids are texts or numbers, but on a command line all are texts."""
    try:
        return server.subscription(id).id
    except UnknownSubscriptionError:
        if id.lstrip("-").isdecimal():
            return server.subscription(int(id)).id
        raise
