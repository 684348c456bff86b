"""The command `ray-pubsub` and its sub-commands."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from actors.command import demonstrating, doctor, in_process, lifecycle, using
from actors.command.terminal import fail, write_error
from ray_pubsub.errors import RayPubSubError, UnknownSubscriberWarning

__all__ = ["app", "main"]

INTERRUPTED = 130
USAGE_ERROR: Any = next(each for each in typer.BadParameter.__mro__ if each.__name__ == "UsageError")
"""What typer raises for wrong use; it names only the subclass."""


class Commands(TyperGroup):
    """Reports an error of the library as a line on stderr and an exit code, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        as_json = "--json" in [*getattr(ctx, "_protected_args", ()), *ctx.args]
        notices = logging.getLogger("actors.cluster.joining")
        try:
            if as_json:  # stderr has one document at most
                notices.setLevel(logging.ERROR)
            return super().invoke(ctx)
        except RayPubSubError as error:
            fail(error, as_json)
        except USAGE_ERROR as error:
            if not as_json:
                raise
            write_error("UsageError", error.format_message())
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of a pipe (head, for example) has read enough. Without this, Python would complain again when it closes stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(0) from None
        finally:
            notices.setLevel(logging.NOTSET)


app = typer.Typer(
    cls=Commands,
    name="ray-pubsub",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done; 1 something was refused or rejected; 2 wrong use; 3 no server or cluster; "
    "4 an extra is not installed; 130 Ctrl-C.",
)

IN_PROCESS, SERVERS, USING = "In this process, without a server", "Servers", "Using a server"


def _version(wanted: bool) -> None:
    if wanted:
        import ray_pubsub

        print(ray_pubsub.__version__)
        raise typer.Exit


@app.callback()
def ray_pubsub_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="The installed release.")
    ] = False,
) -> None:
    """Content-based publish/subscribe: subscriptions are WHERE clauses, matched exactly against events."""
    warnings.showwarning = _shown  # a single line, without the line of our code that warned


def _shown(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(
        f"note: {message}" if issubclass(category, UnknownSubscriberWarning) else f"warning: {message}", file=sys.stderr
    )


COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    IN_PROCESS: (in_process.match, using.explain, in_process.bench, in_process.warm_up, doctor.doctor),
    SERVERS: (demonstrating.demo, lifecycle.start, lifecycle.status, lifecycle.top, lifecycle.stop, lifecycle.serve),
    USING: (using.subscribe, using.unsubscribe, using.load, using.export, using.publish, using.listen),
}
for _panel, _commands in COMMANDS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)


def main() -> None:
    """The entry point of the console script."""
    app(prog_name="ray-pubsub")
