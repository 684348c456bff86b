"""A row of the table of paths, from which requests are dispatched and the OpenAPI document is generated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from actors.http.problems import HttpError
from actors.http.requests import Request, Response

if TYPE_CHECKING:
    from actors.http.application import Application

__all__ = ["Handler", "Route", "RouteTable"]

Handler = Callable[["Application", Request], Awaitable[Response | None]]
"""Handles a request. It returns None if it has sent the response itself."""


@dataclass(frozen=True, slots=True)
class Route:
    """One path with one method: who may call it, what it takes and answers, and which function does it."""

    method: str
    path: str
    handler: Handler
    scope: str | None
    """The scope that the token needs; None if no token is needed. For "subscribe" the handler checks the subscriber."""
    summary: str
    query: tuple[tuple[str, str, str], ...] = ()
    """For each parameter its name, JSON type and meaning."""
    body: tuple[str, ...] = ()
    """The accepted media types."""
    fields: dict[str, str] | None = None
    """The fields of a body that is an object, with their meanings."""
    answer: str = "the result"
    answer_kind: str = "application/json"
    schema: str | None = None
    """The name of the answer's schema in `schemas.py`."""
    statuses: tuple[int, ...] = (200,)
    """Those of answers that are no errors."""


class RouteTable:
    """Finds routes. Paths without variable parts are found in a dict, the others by their segments."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._fixed: dict[str, dict[str, Route]] = {}
        self._variable: list[tuple[list[str], dict[str, Route]]] = []
        by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            by_path.setdefault(route.path, {})[route.method] = route
        for path, methods in by_path.items():
            if "{" in path:
                self._variable.append((path.split("/"), methods))
            else:
                self._fixed[path] = methods

    def find(self, scope: Any) -> tuple[Route, dict[str, str]]:
        """Returns the route, and the variable parts of the path. Raises HttpError."""
        method, path = scope["method"], scope["path"]
        found = self._fixed.get(path)
        if found is not None and method in found:
            return found[method], {}
        parts: dict[str, str] = {}
        if found is None:
            # The raw path is used, because a slash within a name is escaped there and does not separate.
            raw = scope.get("raw_path", path.encode()).partition(b"?")[0].decode("latin-1")
            found, parts = self._by_segments([unquote(each) for each in raw.split("/")])
        if found is None:
            raise HttpError(404, f"there is nothing at {path}; see /openapi.json")
        if method == "HEAD" and "GET" in found:
            method = "GET"
        if method not in found:
            raise HttpError(405, f"{path} takes {', '.join(found)}, not {method}", allowed=list(found))
        return found[method], parts

    def _by_segments(self, segments: list[str]) -> tuple[dict[str, Route] | None, dict[str, str]]:
        for pattern, methods in self._variable:
            if len(pattern) == len(segments):
                parts: dict[str, str] = {}
                for expected, given in zip(pattern, segments, strict=True):
                    if expected[:1] == "{":
                        if not given:
                            break
                        parts[expected[1:-1]] = given
                    elif expected != given:
                        break
                else:
                    return methods, parts
        return None, {}
