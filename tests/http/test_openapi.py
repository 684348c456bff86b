"""The description says what is answered: real answers are compared with their schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from actors.http.routes.table import ROUTES
from actors.http.schemas import SCHEMAS
from tests.documents import ROOT
from tests.http.requesting import Answer, Interface

NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def described(interface: Interface) -> Any:
    return interface.ask("GET", "/openapi.json", token=None).data


def undescribed(found: Any, schema: Any, described: Any, path: str = "") -> Iterator[str]:
    """Yields the fields of an answer that its schema does not name."""
    schema = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    for each in schema.get("anyOf", ()):
        if each.get("type") != "null":
            schema = each
    if isinstance(found, list):
        for each in found:
            yield from undescribed(each, schema.get("items", {}), described, f"{path}[]")
    elif isinstance(found, dict) and "properties" in schema:
        for name, value in found.items():
            if name not in schema["properties"]:
                yield f"{path}.{name}"
            else:
                yield from undescribed(value, schema["properties"][name], described, f"{path}.{name}")


def check(described: Any, answer: Answer, method: str, path: str, whole: bool = True) -> Any:
    """Compares an answer with the schema of its operation and status; `whole`: it has no field that is not described."""
    content = described["paths"][path][method]["responses"][str(answer.status)]["content"]
    schema = content[answer.headers["content-type"]]["schema"]
    Draft202012Validator({**schema, "components": described["components"]}).validate(answer.data)
    assert not whole or list(undescribed(answer.data, schema, described)) == []
    return answer.data


def test_the_schemas_are_schemas(described: Any) -> None:
    for schema in described["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    used = json.dumps(described["paths"]) + json.dumps(SCHEMAS)
    assert [name for name in SCHEMAS if f'/{name}"' not in used] == []


def test_answers_are_as_described(interface: Interface, described: Any) -> None:
    body = {"subscriber": "oa", "expression": "oa < 9", "data": {"title": "x"}, "tags": ["oa-tag"]}
    subscriptions, one = "/v1/subscriptions", "/v1/subscriptions/{id}"
    check(described, interface.ask("POST", subscriptions, body), "post", subscriptions)
    check(described, interface.ask("PUT", f"{subscriptions}/oa-1", body), "put", one)
    check(described, interface.ask("PUT", f"{subscriptions}/int:77", {**body, "tags": None}), "put", one)
    check(described, interface.ask("GET", f"{subscriptions}/int:77"), "get", one)
    assert check(described, interface.ask("GET", f"{subscriptions}?subscriber=oa&limit=1"), "get", subscriptions)[
        "after"
    ]
    bulk = b'{"id": "oa-2", "subscriber": "oa", "expression": "oa = 1"}\n{"id": "oa-3"}\nnonsense\n'
    loaded = interface.ask("POST", f"{subscriptions}/bulk", bulk, headers=NDJSON)
    assert check(described, loaded, "post", f"{subscriptions}/bulk")["rejected"] == 2

    events = b'{"oa": 1, "at": 1.5}\nnonsense\n{"oa": 99999999999999999999}\n'
    published = interface.ask("POST", "/v1/events?data=true", events, headers=NDJSON)
    report = check(described, published, "post", "/v1/events")
    assert report["errors"] and report["warnings"] and report["results"][0]["matches"] and report["moment"]
    check(described, interface.ask("POST", "/v1/events?deliver=false", {"oa": 1}), "post", "/v1/events")

    of = "/v1/subscribers/{subscriber}"
    items = check(described, interface.ask("POST", "/v1/subscribers/oa/poll?data=true"), "post", f"{of}/poll")["items"]
    assert items[0]["tags"] == ["oa-tag"]
    check(described, interface.ask("POST", "/v1/subscribers/oaa/poll"), "post", f"{of}/poll")
    receipts = {"receipts": [each["receipt"] for each in items]}
    for how in ("extend", "ack", "nack", "release"):
        check(described, interface.ask("POST", f"/v1/subscribers/oa/{how}", receipts), "post", f"{of}/{how}")
    stats = check(described, interface.ask("GET", "/v1/stats"), "get", "/v1/stats", whole=False)
    assert stats["shards"][0]["events"] > 0 and stats["registry"]["subscriptions"] > 0
    check(described, interface.ask("DELETE", f"{subscriptions}/oa-1"), "delete", one)
    check(described, interface.ask("DELETE", f"{subscriptions}?tag=oa-tag"), "delete", subscriptions)
    check(described, interface.ask("DELETE", "/v1/subscribers/oa"), "delete", of)


def test_what_is_not_described_is_found(described: Any) -> None:
    found = {"items": [], "warning": "x", "more": 1}
    assert list(undescribed(found, {"$ref": "#/components/schemas/Deliveries"}, described)) == [".more"]


def test_the_page_names_every_path_and_method() -> None:
    """Its cells are like "`GET`, `PUT /v1/rules/{id}`, `…/other`"; what begins with … is beside the path before it, the same methods."""
    page = (ROOT / "docs" / "http.md").read_text()
    rows = re.findall(r"^\| (.*?) \|", page[page.index("## Paths") : page.index("## What it does")], re.MULTILINE)
    named: set[tuple[str, str]] = set()
    for row in rows:
        methods: list[str] = []
        whole, path = True, ""
        for span in re.findall(r"`([^`]+)`", row):
            method, _, found = span.partition(" ")
            if method.startswith("…"):
                path = path.rpartition("/")[0] + method.removeprefix("…")
            else:
                methods = [method] if whole else [*methods, method]
                path = found
            whole = bool(path)
            named |= {(each, path) for each in methods if path}
    assert named == {(route.method, route.path) for route in ROUTES}
