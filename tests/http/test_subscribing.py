"""Subscriptions, rules, bulk loads, tokens and their scopes."""

from __future__ import annotations

import json

import pytest

from actors.http.routes import subscribing
from actors.http.routes.table import ROUTES
from tests.http.requesting import Interface

NDJSON = {"Content-Type": "application/x-ndjson"}
ANN, TEAM, VIEWER, PUBLISHER = "token-of-ann-only", "token-of-the-team", "token-of-a-viewer", "token-of-publisher"


def test_one_subscription_from_birth_to_death(interface: Interface) -> None:
    body = {"subscriber": "ann", "expression": "a = 1"}
    made = interface.ask("POST", "/v1/subscriptions", body, token=ANN, headers={"Idempotency-Key": "k"})
    again = interface.ask("POST", "/v1/subscriptions", body, token=ANN, headers={"Idempotency-Key": "k"})
    assert (made.status, made.data["id"]) == (201, again.data["id"])
    path = f"/v1/subscriptions/{made.data['id']}"
    assert interface.ask("GET", path, token=ANN).data["expression"] == "a = 1"
    assert [
        each["id"] for each in interface.ask("GET", "/v1/subscriptions?subscriber=ann", token=ANN).data["items"]
    ] == [made.data["id"]]
    assert interface.ask("DELETE", path, token=ANN).data == {"removed": True}
    assert interface.ask("DELETE", path, token=ANN).data == {"removed": False}
    missing = interface.ask("GET", path)
    assert (missing.status, missing.data["type"]) == (404, "urn:ray-pubsub:UnknownSubscriptionError")


def test_data_and_tags(interface: Interface) -> None:
    body = {"subscriber": "carry", "expression": "carry = 1", "data": {"title": "Été"}, "tags": ["t2", "t1"]}
    assert interface.ask("PUT", "/v1/subscriptions/c1", body).data["data"] == {"title": "Été"}
    line = {"id": "c2", "subscriber": "carry", "expression": "carry = 1", "tags": ["t1"]}
    lines = [
        json.dumps(line),
        json.dumps({**line, "id": "c3", "tags": "t1"}),
        json.dumps({**line, "id": "c4", "tags": None}),
    ]
    loaded = interface.ask("POST", "/v1/subscriptions/bulk", "\n".join(lines).encode(), headers=NDJSON).data
    assert (loaded["added"], [each["id"] for each in loaded["rejections"]]) == (2, ["c3"])
    found = interface.ask("GET", "/v1/subscriptions/c1").data
    assert (found["data"], found["tags"]) == ({"title": "Été"}, ["t1", "t2"])
    tagged = interface.ask("GET", "/v1/subscriptions?tag=t1", token=VIEWER).data["items"]
    assert [each["id"] for each in tagged] == ["c1", "c2"]
    assert [each["id"] for each in interface.ask("GET", "/v1/subscriptions?search=%C3%A9T%C3%A9").data["items"]] == [
        "c1"
    ]
    (result,) = interface.ask("POST", "/v1/events?data=true", {"carry": 1}).data["results"]
    assert sorted((each["id"], each["data"], each["tags"]) for each in result["matches"]) == [
        ("c1", {"title": "Été"}, ["t1", "t2"]),
        ("c2", None, ["t1"]),
        ("c4", None, []),
    ]
    polled = interface.ask("POST", "/v1/subscribers/carry/poll?wait=10&data=true").data["items"]
    assert {each["subscription_id"]: each["tags"] for each in polled} == {"c1": ["t1", "t2"], "c2": ["t1"], "c4": []}
    large = interface.ask("PUT", "/v1/subscriptions/c1", {**body, "data": "x" * 5000})
    assert (large.status, large.data["type"]) == (422, "urn:ray-pubsub:MetadataError")
    assert interface.ask("PUT", "/v1/subscriptions/c1", {**body, "tags": "t"}).status == 422
    assert interface.ask("DELETE", "/v1/subscriptions?tag=t1", token=ANN).status == 403
    assert interface.ask("DELETE", "/v1/subscriptions").status == 422
    assert interface.ask("DELETE", "/v1/subscriptions?tag=t1").data == {"removed": 2}
    assert interface.ask("DELETE", "/v1/subscribers/carry").data == {"removed": 1}


def test_a_field_that_there_is_not_is_no_secret(interface: Interface) -> None:
    """Without its tags the subscription would be added, and nobody would know."""
    body = {"subscriber": "carry", "expression": "carry = 1", "tag": "t1"}
    answers = [interface.ask("POST", "/v1/subscriptions", body), interface.ask("PUT", "/v1/subscriptions/c1", body)]
    told = "a subscription has no tag; it has id, subscriber, expression, data, tags"
    assert [(each.status, each.data["detail"]) for each in answers] == [(422, told)] * 2
    lines = "\n".join(json.dumps(each) for each in ({**body, "id": "c1"}, {"id": "c2", "expression": "x = 1"}, [1]))
    report = interface.ask(
        "POST", "/v1/subscriptions/bulk", lines.encode(), headers={"Content-Type": "application/x-ndjson"}
    ).data
    wrong = [told, "a subscription lacks subscriber", "a subscription is an object"]
    assert [each["error"]["detail"] for each in report["rejections"]] == wrong
    good = {name: value for name, value in body.items() if name != "tag"}
    assert interface.ask("PUT", "/v1/subscriptions/c1", good).status == 201
    listed = interface.ask("GET", "/v1/subscriptions/c1").data
    assert interface.ask("PUT", "/v1/subscriptions/c1", listed).status == 201, "what is listed comes back as it is"
    interface.ask("DELETE", "/v1/subscriptions/c1")


def test_ids_of_both_kinds(interface: Interface) -> None:
    for path in ("int:7", "str:int:7", "a%2Fb%20c"):
        body = {"subscriber": "team-x", "expression": "a = 1"}
        assert interface.ask("PUT", f"/v1/subscriptions/{path}", body, token=TEAM).status == 201
    listed = interface.ask("GET", "/v1/subscriptions?subscriber=team-x", token=TEAM).data["items"]
    assert [each["id"] for each in listed] == [7, "int:7", "a/b c"]
    assert interface.ask("DELETE", "/v1/subscribers/team-x", token=TEAM).data == {"removed": 3}


def test_an_expression_error_has_the_place(interface: Interface) -> None:
    for path in ("/v1/subscriptions", "/v1/expressions/check"):
        answer = interface.ask("POST", path, {"subscriber": "ann", "expression": "a = 1 and price <"}, token=ANN)
        assert answer.status == 422
        assert answer.data["type"] == "urn:ray-pubsub:ExpressionSyntaxError"
        assert answer.data["position"] == 17
        assert "a number" in answer.data["expected"]
        assert "^" in answer.data["detail"]
    assert interface.ask("POST", "/v1/expressions/check", {"expression": "a < 1"}, token=ANN).data == {"valid": True}


def test_a_bulk_load_reports_the_lines_that_it_rejects(interface: Interface) -> None:
    lines = [json.dumps({"id": f"bulk-{n}", "subscriber": "bulk", "expression": f"n = {n}"}) for n in range(300)]
    lines[7] = "nonsense"
    lines[9] = '{"id": "x"}'
    lines[11] = '{"id": "bulk-11", "subscriber": "bulk", "expression": "n ="}'
    answer = interface.ask("POST", "/v1/subscriptions/bulk", "\n".join(lines).encode(), headers=NDJSON).data
    assert (answer["added"], answer["rejected"], answer["lines"]) == (297, 3, 300)
    assert [(each["position"], each["id"]) for each in answer["rejections"]] == [(7, None), (9, "x"), (11, "bulk-11")]
    assert answer["rejections"][2]["error"]["position"] == 3
    assert interface.ask("POST", "/v1/subscriptions/bulk", b"", token=ANN, headers=NDJSON).status == 403
    # Page by page, searched and not.
    found, after = [], 0
    while after is not None:
        page = interface.ask("GET", f"/v1/subscriptions?subscriber=bulk&limit=100&after={after}", token=VIEWER).data
        found += [each["id"] for each in page["items"]]
        after = page["after"]
    assert len(found) == len(set(found)) == 297
    searched = interface.ask("GET", "/v1/subscriptions?search=BULK-29&limit=4", token=VIEWER).data
    assert [each["id"] for each in searched["items"]] == ["bulk-29", "bulk-290", "bulk-291", "bulk-292"]
    more = interface.ask("GET", f"/v1/subscriptions?search=bulk-29&after={searched['after']}", token=VIEWER).data
    assert [each["id"] for each in more["items"]] == [f"bulk-{n}" for n in range(293, 300)]
    assert interface.ask("DELETE", "/v1/subscribers/bulk").data == {"removed": 297}


def test_a_bulk_load_counts_lines_over_many_portions(interface: Interface, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribing, "LOAD_PORTION", 20_001)
    lines = [json.dumps({"id": f"many-{n}", "subscriber": "many", "expression": f"n = {n}"}) for n in range(1500)]
    bad = {
        0: "nonsense",
        333: '{"id": "many-333", "subscriber": "many", "expression": "n ="}',
        700: "",
        1499: '{"id": 7}',
    }
    for place, line in bad.items():
        lines[place] = line
    body = "\n".join(lines).encode()
    assert len(body) > 4 * 20_001
    answer = interface.ask("POST", "/v1/subscriptions/bulk", body, headers=NDJSON).data
    assert (answer["added"], answer["rejected"], answer["lines"]) == (1496, 3, 1500)
    assert [(each["position"], each["id"]) for each in answer["rejections"]] == [
        (0, None),
        (333, "many-333"),
        (1499, 7),
    ]
    assert interface.ask("DELETE", "/v1/subscribers/many").data == {"removed": 1496}


def test_rules(interface: Interface) -> None:
    assert interface.ask("PUT", "/v1/rules/r1", {"level": "critical", "expression": "zz = 1"}).status == 201
    assert {"id": "r1", "level": "critical", "expression": "zz = 1"} in interface.ask("GET", "/v1/rules").data["items"]
    assert (
        interface.ask("PUT", "/v1/rules/r1", {"level": "none", "expression": "zz = 1"}).data["levels"][-1] == "critical"
    )
    assert interface.ask("DELETE", "/v1/rules/r1").data == {"removed": True}


@pytest.mark.parametrize(
    ("token", "method", "path", "status"),
    [
        (None, "GET", "/v1/stats", 401),
        ("wrong-wrong-wrong-wrong", "GET", "/v1/stats", 401),
        (ANN, "GET", "/v1/stats", 403),
        (VIEWER, "GET", "/v1/stats", 200),
        (VIEWER, "GET", "/metrics", 200),
        (ANN, "POST", "/v1/subscribers/bob/poll", 403),
        (ANN, "POST", "/v1/subscribers/ann/poll", 200),
        (ANN, "POST", "/v1/subscribers/anne/poll", 403),
        (TEAM, "POST", "/v1/subscribers/team-9/poll", 200),
        (ANN, "GET", "/v1/subscribers/bob/stream", 403),
        (ANN, "GET", "/v1/subscriptions", 403),
        (ANN, "POST", "/v1/events", 403),
        (PUBLISHER, "POST", "/v1/events?matches=1", 403),
        (PUBLISHER, "GET", "/v1/tokens", 403),
        (VIEWER, "DELETE", "/v1/subscribers/ann", 403),
        (None, "GET", "/healthz", 200),
        (None, "GET", "/v1/nothing", 404),
        (None, "PATCH", "/v1/events", 405),
    ],
)
def test_scopes(interface: Interface, token: str | None, method: str, path: str, status: int) -> None:
    body = {"x": 1} if path.startswith("/v1/events") else None
    answer = interface.ask(method, path, body, token=token)
    assert answer.status == status, answer.body
    if status >= 400:
        assert answer.data["status"] == status and answer.data["detail"]


def test_nobody_takes_over_the_subscription_of_another(interface: Interface) -> None:
    interface.ask("PUT", "/v1/subscriptions/bobs", {"subscriber": "bob", "expression": "b = 1"})
    stolen = {"subscriber": "ann", "expression": "b = 2"}
    assert interface.ask("PUT", "/v1/subscriptions/bobs", stolen, token=ANN).status == 403
    assert interface.ask("DELETE", "/v1/subscriptions/bobs", token=ANN).status == 403
    assert interface.ask("DELETE", "/v1/subscriptions/bobs", token=VIEWER).status == 403
    assert interface.ask("GET", "/v1/subscriptions/bobs").data["subscriber"] == "bob"
    interface.ask("DELETE", "/v1/subscribers/bob")


def test_tokens_are_made_and_withdrawn(interface: Interface) -> None:
    token = interface.ask("PUT", "/v1/tokens/carl", {"scopes": ["subscribe:carl"]}).data["token"]
    assert interface.ask("POST", "/v1/subscribers/carl/poll", token=token).status == 200
    listed = interface.ask("GET", "/v1/tokens")
    assert {"name": "carl", "scopes": ["subscribe:carl"]} in listed.data["items"]
    assert token not in listed.body.decode()
    assert token not in (interface.app.file.folder / "http.json").read_text()
    stream = interface.stream("/v1/subscribers/carl/stream", token=token)
    assert stream.status == 200
    assert interface.ask("DELETE", "/v1/tokens/carl").data == {"removed": True}
    assert stream.rest().startswith("retry:"), "it ends with its token"
    stream.close()
    assert interface.ask("POST", "/v1/subscribers/carl/poll", token=token).status == 401
    assert interface.ask("PUT", "/v1/tokens/boss", {"scopes": ["read"]}).status == 422
    assert interface.ask("PUT", "/v1/tokens/eve", {"scopes": ["everything"]}).status == 422


def test_the_description_has_every_path(interface: Interface) -> None:
    answer = interface.ask("GET", "/openapi.json", token=None).data
    assert answer["openapi"] == "3.1.0"
    described = {(method.upper(), path) for path, methods in answer["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}
    names = [operation["operationId"] for methods in answer["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))


def test_numbers_for_prometheus(interface: Interface) -> None:
    text = interface.ask("GET", "/metrics").body.decode()
    assert 'ray_pubsub_registry_subscriptions{server="http",role="registry",number="0"}' in text
    assert "ray_pubsub_http_up" in text
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    for line in text.splitlines():
        if not line.startswith("#"):
            float(line.rpartition(" ")[2])


def test_explain_and_backtest(interface: Interface) -> None:
    interface.ask("PUT", "/v1/subscriptions/ex", {"subscriber": "exam", "expression": "speed > 5 and name = 'x'"})
    found = interface.ask("POST", "/v1/explain", {"event": {"speed": 9, "name": "x"}}).data
    assert (found["matches"], found["matched"]) == (1, [{"id": "ex", "subscriber": "exam"}])
    assert found["plan"]["shards"]["0"]["matches"] == 1
    why = interface.ask("POST", "/v1/explain", {"event": {"speed": 1, "name": "x"}, "id": "ex"}).data
    assert (why["truth"], [part["truth"] for part in why["parts"]]) == (False, [False, True])
    draft = interface.ask("POST", "/v1/explain", {"event": {"speed": 1}, "expression": "speed < 3"}).data
    assert draft["truth"] is True
    interface.ask("POST", "/v1/events", b"".join(b'{"speed": %d}\n' % n for n in range(50)), headers=NDJSON)
    tested = interface.ask("POST", "/v1/backtest", {"expression": "speed >= 40"}).data
    assert tested["matches"] == 10
    assert json.loads(tested["samples"][0]) == {"speed": 49}
    assert interface.ask("POST", "/v1/backtest", {"expression": "speed >="}).data["position"] == 8
    interface.ask("DELETE", "/v1/subscribers/exam")
