"""python -m actors.http [SERVER] [--host …] [--port …]: serves HTTP and the web console for a running server."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from actors.http.serving import run_worker, serve
from actors.http.tokens import read_tokens
from ray_pubsub.errors import SettingError


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s [http] %(name)s: %(message)s")
    if sys.argv[1:2] == ["--worker"]:
        run_worker(int(sys.argv[2]), sys.stdin.buffer.read())
        return
    parser = argparse.ArgumentParser(prog="python -m actors.http", description=__doc__)
    parser.add_argument("server", nargs="?", default="default", help="the server's name (default: %(default)s)")
    parser.add_argument(
        "--address", help="of the Ray cluster, host:port (default: RAY_ADDRESS, or the one on this machine)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the interface to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8480, help="(default: %(default)s)")
    parser.add_argument("--state-dir", help="a folder for webhooks and tokens")
    parser.add_argument("--tokens", type=Path, help='a JSON file: {"name": {"token": …, "scopes": [publish, …]}}')
    parser.add_argument("--open", action="store_true", help="no token is needed")
    parser.add_argument("--certificate", help="a file for TLS")
    parser.add_argument("--key", help="a file for TLS")
    parser.add_argument(
        "--allow-network", action="append", default=[], help="a private network that webhooks may go to, 10.1.0.0/16"
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], help="with --open, a host name under which it may be reached"
    )
    given = parser.parse_args()
    try:
        tokens = {} if given.tokens is None else read_tokens(given.tokens)
        serve(
            given.server, given.host, given.port, address=given.address, state_dir=given.state_dir, tokens=tokens, open=given.open,
            certificate=given.certificate, key=given.key, allow_networks=tuple(given.allow_network),
        allow_hosts=tuple(given.allow_host),
        )  # fmt: skip
    except SettingError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
