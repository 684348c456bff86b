"""Generates the OpenAPI 3.1 description of the interface from the table of paths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from actors.http.encoding import JSON
from actors.http.route import Route
from actors.http.schemas import SCHEMAS

__all__ = ["document"]

PROBLEM = {
    "description": "an error (RFC 9457)",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "ray-pubsub", "version": _version(), "description": "Content-based publish/subscribe."},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": SCHEMAS,
        },
    }


def _answer(route: Route) -> dict[str, Any]:
    schema = {"type": "object" if route.answer_kind == JSON else "string"}
    if route.schema is not None:
        schema = {"$ref": f"#/components/schemas/{route.schema}"}
    return {"description": route.answer, "content": {route.answer_kind: {"schema": schema}}}


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _name(route),
        "summary": route.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in re.findall(r"{(\w+)}", route.path)
            ),
            *(
                {"name": name, "in": "query", "description": meaning, "schema": {"type": kind}}
                for name, kind, meaning in route.query
            ),
        ],
        "responses": {
            **{str(status): _answer(route) for status in route.statuses},
            "default": PROBLEM,
        },
    }
    if route.method == "POST" and route.path == "/v1/events":
        found["parameters"].append(_header("Idempotency-Key", "a repetition under the same key is delivered once"))
    if route.path.endswith("/stream"):
        found["parameters"].append(_header("Last-Event-ID", "the id of the last message that was received"))
    if route.scope is None:
        found["security"] = []
    else:
        found["x-scope"] = route.scope
    if route.body:
        schema: dict[str, Any] = {}
        if route.fields is not None:
            schema = {
                "type": "object",
                "properties": {name: {"description": text} if text else {} for name, text in route.fields.items()},
            }
        found["requestBody"] = {"content": {kind: {"schema": schema} for kind in route.body}}
    return found


def _header(name: str, meaning: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": meaning, "schema": {"type": "string"}}


def _name(route: Route) -> str:
    words = re.findall(r"\w+", route.path.removeprefix("/v1/").replace("{", "").replace("}", "")) or ["console"]
    return "_".join([route.method.lower(), *words])


def _version() -> str:
    try:
        return version("ray-pubsub")
    except PackageNotFoundError:  # the package is not installed, but run from a folder
        return "0"
