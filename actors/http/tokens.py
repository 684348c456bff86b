"""Access control: a token per client, with scopes.

publish            publishes
subscribe:NAME     subscribes, unsubscribes and consumes as the subscriber NAME; NAME may end in *, which stands for the rest
read               looks in: subscriptions of everybody, matches, explain, stats, metrics, the console's pictures
admin              everything, including webhooks, rules and tokens
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from actors.http.problems import HttpError
from ray_pubsub.errors import SettingError

__all__ = ["Client", "Tokens", "check_client_name", "checked_scopes", "new_token", "read_tokens", "token_hash"]

SCOPES = re.compile(r"publish|read|admin|subscribe:\S.*")
CLIENT_NAMES = re.compile(r"[\w.-]{1,64}", re.ASCII)
SHORTEST_TOKEN = 16


class Client(NamedTuple):
    """Whom a request comes from."""

    name: str
    scopes: frozenset[str]

    def may(self, scope: str) -> bool:
        """Returns whether the client has a scope, one of the above. "subscribe" alone asks whether it may act as any subscriber, or look
        at subscriptions."""
        if "admin" in self.scopes or scope in self.scopes:
            return True
        if scope == "subscribe":
            return "read" in self.scopes or any(each.startswith("subscribe:") for each in self.scopes)
        return any(each.endswith("*") and scope.startswith(each[:-1]) for each in self.scopes)

    def check(self, scope: str) -> None:
        if not self.may(scope):
            raise HttpError(403, f"the token of {self.name!r} lacks the scope {scope}", scope=scope)

    def check_subscriber(self, subscriber: Any) -> None:
        if not isinstance(subscriber, str):
            raise HttpError(422, "subscriber must be a text", setting="subscriber")
        self.check(f"subscribe:{subscriber}")


class Tokens:
    """The clients by the hashes of their tokens. A token itself is stored nowhere."""

    def __init__(self, given: Mapping[str, Mapping[str, Any]], stored: Mapping[str, Mapping[str, Any]]) -> None:
        """`given` are the clients of the settings, with tokens; `stored` are those made by admins, with hashes."""
        self._clients: dict[str, Client] = {}
        for name, each in given.items():
            token = each.get("token")
            if not isinstance(token, str) or len(token) < SHORTEST_TOKEN:
                raise SettingError(
                    f"tokens[{name!r}]", f"must have a token of {SHORTEST_TOKEN} characters or more, and scopes"
                )
            self.add(name, token_hash(token), each.get("scopes"))
        for name, each in stored.items():
            self.add(name, each["hash"], each["scopes"])

    def __len__(self) -> int:
        return len(self._clients)

    def add(self, name: str, hashed: str, scopes: Any) -> None:
        """Adds or replaces a client's token."""
        check_client_name(name)
        self.remove(name)
        self._clients[hashed] = Client(name, checked_scopes(scopes))

    def remove(self, name: str) -> bool:
        hashes = [hashed for hashed, client in self._clients.items() if client.name == name]
        for hashed in hashes:
            del self._clients[hashed]
        return bool(hashes)

    def client(self, authorization: str | None) -> Client:
        """Returns the client of the header Authorization. Raises HttpError."""
        if authorization is None:
            raise HttpError(401, "send the header Authorization: Bearer TOKEN")
        kind, _, token = authorization.partition(" ")
        token = token.strip()
        found = self._clients.get(token_hash(token)) if kind.lower() == "bearer" and token else None
        if found is None:
            raise HttpError(401, "the token is unknown")
        return found

    def check_valid(self, client: Client) -> None:
        """Raises HttpError if a client's token was revoked or replaced since its request began."""
        if not any(each is client for each in self._clients.values()):
            raise HttpError(401, "the token was revoked")

    def listed(self) -> list[dict[str, Any]]:
        """Lists the clients without their tokens."""
        return [{"name": client.name, "scopes": sorted(client.scopes)} for client in self._clients.values()]


def check_client_name(name: str) -> None:
    if not CLIENT_NAMES.fullmatch(name):
        raise SettingError(
            "name", f"of a client must be 1 to 64 letters, digits, dots, dashes or underscores, not {name!r}"
        )


def checked_scopes(scopes: Any) -> frozenset[str]:
    if not isinstance(scopes, list | tuple | set | frozenset) or not scopes:
        raise SettingError("scopes", "must be a list of publish, subscribe:NAME, read, admin")
    for scope in scopes:
        if not isinstance(scope, str) or not SCOPES.fullmatch(scope):
            raise SettingError("scopes", f"must be publish, subscribe:NAME, read or admin, not {scope!r}")
    return frozenset(scopes)


def read_tokens(path: Path) -> dict[str, dict[str, Any]]:
    """Reads a file of tokens, {"name": {"token": …, "scopes": [publish, …]}}, and checks all of them. Raises SettingError."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError("tokens", f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise SettingError("tokens", f"{path} is not JSON: {error}") from None
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        raise SettingError("tokens", f'{path} must be {{"name": {{"token": …, "scopes": ["publish", …]}}}}')
    Tokens(given, {})  # a process that got a bad token would be started again and again
    return given


def new_token() -> str:
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Hashes a token. Tokens are long and random, so a plain hash cannot be reversed by guessing."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
