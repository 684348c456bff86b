"""The sub-command `ray-pubsub demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from actors.command.terminal import DONE_IN_PART, Json, Terminal

__all__ = ["demo"]


def demo(
    subscriptions: Annotated[int, typer.Option(min=1, help="How many wish lists.")] = 100_000,
    events: Annotated[int, typer.Option(min=1, help="How many products to publish.")] = 3_000,
    shards: Annotated[int, typer.Option(min=1, help="Processes that match.")] = 2,
    kill: Annotated[bool, typer.Option(help="Kill a process on the way, or nobody.")] = True,
    seed: Annotated[int, typer.Option(help="Another seed, other wishes.")] = 7,
    address: Annotated[str, typer.Option(help="Of a Ray cluster on this machine; by default a new one.")] = "local",
    as_json: Json = False,
) -> None:
    """A server with 100,000 wish lists; one of its processes is killed in front of you, and nothing is lost."""
    from rich.console import Console

    from actors.command.demo.run import LEVELS, DemoSize, run_demo
    from actors.command.demo.view import View

    console = Console(highlight=False, quiet=as_json)
    size = DemoSize(subscriptions, events, shards, kill, seed, address=address)
    in_order = run_demo(size, View(LEVELS, console))
    if as_json:
        Terminal(True).result({"in_order": in_order}, "")
    if not in_order:
        raise typer.Exit(DONE_IN_PART)
