"""The settings of the HTTP interface."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from ray_pubsub.errors import SettingError
from ray_pubsub.model.arguments import check_seconds, check_whole

__all__ = ["ADMIN_TOKEN", "HttpSettings", "default_state_dir"]

ADMIN_TOKEN = "admin-token"
"""The file in the state folder that has the token which is made at the first start."""
MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The arguments of `serve`."""

    server: str = "default"
    """The name of the server."""
    address: str | None = None
    """The address of the Ray cluster, as in `ray_pubsub.connect`."""
    host: str = "127.0.0.1"
    """The interface to listen on. On any other than loopback put a proxy with TLS in front of it, or use `certificate` and `key`."""
    port: int = 8480
    """0 means any free port."""
    state_dir: str | None = None
    """A folder for webhooks, tokens and the first admin token; None means a folder of the user's, by the server's name."""
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The tokens by the client's name: {"token": …, "scopes": ["publish", "subscribe:NAME", "read", "admin"]}."""
    open: bool = False
    """If true, no token is needed: everybody who can connect is an admin."""
    allow_hosts: tuple[str, ...] = ()
    """With `open`, the host names under which the interface may be reached, beside IP addresses and localhost. Other names are refused,
    because a web page could point one of its own at this machine."""
    certificate: str | None = None
    key: str | None = None
    """The files for TLS."""
    max_body: int = 16 * MEGABYTE
    """The most bytes of a request that is read as a whole. NDJSON is read in portions, and may be longer."""
    max_line: int = MEGABYTE
    """The most bytes of one line of NDJSON."""
    max_connections: int = 20_000
    """The most connections at once, streams among them; further ones are refused. The limit of open files may be lower."""
    recent_events: int = 1000
    """The number of events kept in memory for back-tests, of at most 8 MB; 0 keeps none."""
    allow_networks: tuple[str, ...] = ()
    """The private networks that webhooks may go to, such as 10.1.0.0/16. Public addresses are always allowed."""
    webhook_timeout: float = 15.0
    """The seconds for one request of a webhook."""
    webhook_retry: float = 5.0
    """The seconds before the second attempt; each further pause is twice as long, up to an hour."""
    heartbeat: float = 15.0
    """The seconds between comments on idle streams, by which a lost connection is noticed."""
    settle: float = 12.0
    """The seconds after which what was sent on a stream that is still open is acknowledged. TCP gives up unconfirmed data after 10."""

    def __post_init__(self) -> None:
        check_whole("port", self.port, 0, 65535)
        check_whole("max_body", self.max_body, 1024)
        check_whole("max_line", self.max_line, 64)
        check_whole("max_connections", self.max_connections, 1)
        check_whole("recent_events", self.recent_events, 0, 1_000_000)
        for name in ("webhook_timeout", "webhook_retry", "heartbeat", "settle"):
            check_seconds(name, getattr(self, name), zero=False)
        if (self.certificate is None) != (self.key is None):
            raise SettingError("certificate", "needs a key, and a key a certificate")
        if self.allow_hosts and not self.open:
            raise SettingError(
                "allow_hosts", "is for open=True (--open) alone: where tokens are needed every host name is allowed"
            )
        for network in self.allow_networks:
            try:
                ip_network(network)
            except ValueError as error:
                raise SettingError("allow_networks", str(error)) from None

    @property
    def folder(self) -> Path:
        """The folder of webhooks and tokens."""
        return Path(self.state_dir) if self.state_dir is not None else default_state_dir(self.server)

    def state(self) -> dict[str, Any]:
        """Returns the settings as plain data, for another process."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def default_state_dir(server: str) -> Path:
    """Returns the default folder below XDG_STATE_HOME, as is the custom for data that outlives a program."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "ray-pubsub" / re.sub(r"[^\w.-]", "_", server)
