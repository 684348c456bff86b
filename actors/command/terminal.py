"""The common parts of all commands: options, output and exit codes."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from ray_pubsub.errors import (
    ClusterError,
    MissingExtraError,
    RayPubSubError,
    SettingError,
    UnavailableError,
    UnknownServerError,
)

if TYPE_CHECKING:
    from actors.client.server import Server

__all__ = [
    "DONE_IN_PART", "Address", "DataDir", "GivenName", "Json", "ServerName", "Terminal", "WithData", "connected", "exit_code", "fail",
    "json_cell", "note_if_typed", "one_name", "write_error", "write_json",
]  # fmt: skip

DONE_IN_PART, WRONG_USE, NO_SERVER, NOT_INSTALLED = 1, 2, 3, 4

Json = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
ServerName = Annotated[str | None, typer.Option("--server", "-s", help="The server's name (default: default).")]
GivenName = Annotated[str | None, typer.Argument(metavar="NAME", help="The same as --server NAME.", show_default=False)]
Address = Annotated[
    str | None,
    typer.Option("--address", "-a", help="Of the Ray cluster, host:port (default: RAY_ADDRESS, or found by name)."),
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", "-d", help="The data folder of a server that runs on this machine.")
]
WithData = Annotated[bool, typer.Option("--data", help="With the data and tags of the subscriptions.")]


class Terminal:
    """Writes results to stdout, as text or as JSON, and everything else to stderr, so that results can be piped."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.results = Console(highlight=False, soft_wrap=True)
        self.notes = Console(stderr=True, highlight=False, soft_wrap=True)

    def result(self, facts: Any, shown: Any) -> None:
        """Writes a result. `facts` is for JSON; `shown` is for people, a text or an object that rich draws."""
        if self.as_json:
            write_json(facts)
        else:
            # Texts are left to the terminal and to pipes; what rich draws knows the width itself, and nothing of it is cut off.
            self.results.print(shown, markup=False, soft_wrap=isinstance(shown, str), crop=False)

    def note(self, text: str, style: str = "") -> None:
        if not self.as_json:
            self.notes.print(text, style=style, markup=False)


def note_if_typed(path: str, terminal: Terminal) -> None:
    """Says what a command waits for that reads events from a keyboard."""
    if path == "-" and sys.stdin.isatty():
        terminal.note("events come from this terminal: a JSON object in each line; Ctrl-D ends them")


def write_json(facts: Any) -> None:
    """Writes one document on a line."""
    print(json.dumps(_plain(facts), ensure_ascii=False, default=str), flush=True)


def json_cell(value: Any) -> str:
    """Returns a cell of a line for people: JSON, and nothing for what is absent."""
    return "" if value is None or value == () else json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    """Converts a value for JSON, which has no infinity and does not know numpy's numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def one_name(named: str | None, name: str | None) -> str | None:
    """Returns the server's name, which is given as an argument, as it is for `start`, or as an option."""
    if named is not None and name not in (None, named):
        raise SettingError("server", f"is {name!r}, and the argument {named!r}; name one")
    return name if named is None else named


def connected(name: str | None, address: str | None, data_dir: Path | None) -> Server:
    """Connects to the server that a command is about."""
    import ray_pubsub

    os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")  # a page about the SIGTERM that ends a command

    return ray_pubsub.connect(name, address=address, data_dir=data_dir)


def exit_code(error: RayPubSubError) -> int:
    if isinstance(error, MissingExtraError):
        return NOT_INSTALLED
    if isinstance(error, ClusterError | UnknownServerError | UnavailableError):
        return NO_SERVER
    return WRONG_USE if isinstance(error, SettingError) else DONE_IN_PART


def write_error(kind: str, message: str) -> None:
    """Writes an error for programs."""
    print(json.dumps({"error": kind, "message": message}, ensure_ascii=False), file=sys.stderr)


def fail(error: RayPubSubError, as_json: bool, code: int | None = None) -> NoReturn:
    """Ends the command with the error's message and the exit code of its kind, or the given one."""
    if as_json:
        write_error(type(error).__name__, str(error))
    else:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"error: {error}", style="red", markup=False)
    raise typer.Exit(code or exit_code(error))
