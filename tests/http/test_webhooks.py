"""Webhooks against a real endpoint: signatures, retries, dead letters, circuit breaking, forbidden addresses, restarts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from actors.http.webhooks.webhook import webhook_of
from tests.http.requesting import Interface


class Endpoint:
    """Answers with what `answer` gives for each request, and keeps what it got."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answer: Callable[[int], int] = lambda count: 200
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                endpoint.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(endpoint.answer(len(endpoint.got)))
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook?x=1"

    def numbers(self) -> list[int]:
        return [json.loads(body)["event"]["n"] for _, body in self.got]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def hook(interface: Interface, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"hook-{request.node.name.removeprefix('test_')}"
    interface.ask("PUT", f"/v1/subscriptions/{name}", {"subscriber": name, "expression": f"hook = '{name}'"})
    yield name
    interface.ask("DELETE", f"/v1/webhooks/{name}")
    interface.ask("DELETE", f"/v1/subscribers/{name}")


def put(interface: Interface, hook: str, url: str, **more: object) -> dict:
    answer = interface.ask("PUT", f"/v1/webhooks/{hook}", {"subscriber": hook, "url": url, **more})
    assert answer.status == 201, answer.body
    return answer.data


def publish(interface: Interface, hook: str, *numbers: int) -> None:
    for number in numbers:
        interface.ask("POST", "/v1/events", {"hook": hook, "n": number})


def test_what_arrives_has_the_data_of_the_subscription_on_request(
    interface: Interface, hook: str, endpoint: Endpoint
) -> None:
    body = {"subscriber": hook, "expression": f"hook = '{hook}'", "data": [1, "é"], "tags": ["t"]}
    assert interface.ask("PUT", f"/v1/subscriptions/{hook}", body).status == 201
    assert put(interface, hook, endpoint.url, data=True)["data"] is True
    publish(interface, hook, 1)
    interface.wait_until(lambda: len(endpoint.got) == 1)
    got = json.loads(endpoint.got[0][1])
    assert (got["data"], got["tags"], got["event"]["n"]) == ([1, "é"], ["t"], 1)


def test_what_arrives_is_signed_and_acknowledged(interface: Interface, hook: str, endpoint: Endpoint) -> None:
    secret = put(interface, hook, endpoint.url)["secret"]
    publish(interface, hook, 1, 2)
    interface.wait_until(lambda: interface.ask("GET", f"/v1/subscribers/{hook}/mailbox").data["acked"] == 2)
    assert sorted(endpoint.numbers()) == [1, 2]
    for headers, body in endpoint.got:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(secret.removeprefix("whsec_"))
        expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
    shown = interface.ask("GET", f"/v1/webhooks/{hook}").data
    assert "secret" not in shown
    assert (shown["accepted"], shown["breaker"]) == (2, "closed")


def test_a_failure_is_repeated_with_the_same_id_until_it_is_a_dead_letter(
    interface: Interface, hook: str, endpoint: Endpoint
) -> None:
    endpoint.answer = lambda count: 500
    put(interface, hook, endpoint.url)
    publish(interface, hook, 1)
    path = f"/v1/subscribers/{hook}/dead-letters"
    interface.wait_until(lambda: interface.ask("GET", path).data["items"])
    (dead,) = interface.ask("GET", path).data["items"]
    assert (dead["attempts"], dead["reason"]) == (3, "webhook: HTTP 500")
    assert len({headers["webhook-id"] for headers, _ in endpoint.got}) == 1
    endpoint.answer = lambda count: 204
    assert interface.ask("POST", f"{path}/redrive").data == {"redriven": 1}
    interface.wait_until(lambda: interface.ask("GET", f"/v1/subscribers/{hook}/mailbox").data["acked"] == 1)


def test_an_endpoint_that_keeps_failing_is_left_alone(interface: Interface, hook: str, endpoint: Endpoint) -> None:
    endpoint.answer = lambda count: 503
    put(interface, hook, endpoint.url, concurrency=1)
    publish(interface, hook, *range(8))
    interface.wait_until(lambda: interface.ask("GET", f"/v1/webhooks/{hook}").data["breaker"] == "open")
    assert len(endpoint.got) == 5
    # What was not tried has lost no attempt, and waits.
    assert interface.ask("GET", f"/v1/subscribers/{hook}/mailbox").data["dead"] <= 1


def test_gone_is_for_good(interface: Interface, hook: str, endpoint: Endpoint) -> None:
    endpoint.answer = lambda count: 410
    put(interface, hook, endpoint.url)
    publish(interface, hook, 1)
    interface.wait_until(lambda: not interface.ask("GET", f"/v1/webhooks/{hook}").data["enabled"])
    assert "410" in interface.ask("GET", f"/v1/webhooks/{hook}").data["disabled_reason"]


def test_private_addresses_are_refused(interface: Interface, hook: str) -> None:
    """Only 127.0.0.1 is allowed here: nothing is sent to another address of this machine, whatever its name is."""
    put(interface, hook, "http://127.0.0.2:9/")
    publish(interface, hook, 1)
    interface.wait_until(
        lambda: "no public address" in interface.ask("GET", f"/v1/webhooks/{hook}").data.get("last", "")
    )
    for url in ("ftp://x/", "http://user" + ":pw@x/", "http://x y/", "http://", 7):
        assert interface.ask("PUT", f"/v1/webhooks/{hook}", {"subscriber": hook, "url": url}).status == 422


def test_the_configuration_is_on_disk(interface: Interface, hook: str, endpoint: Endpoint) -> None:
    made = put(interface, hook, endpoint.url, concurrency=3)
    path = interface.app.file.folder / "http.json"
    found = webhook_of(hook, json.loads(path.read_text())["webhooks"][hook])
    assert (found.url, found.concurrency, found.secret) == (endpoint.url, 3, made["secret"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert interface.ask("DELETE", f"/v1/webhooks/{hook}").data == {"removed": True}
    assert hook not in json.loads(path.read_text())["webhooks"]


def test_only_for_subscribers_that_the_client_may_act_for(interface: Interface, hook: str, endpoint: Endpoint) -> None:
    body = {"subscriber": hook, "url": endpoint.url}
    assert interface.ask("PUT", f"/v1/webhooks/{hook}", body, token="token-of-ann-only").status == 403
    put(interface, hook, endpoint.url)
    assert interface.ask("DELETE", f"/v1/webhooks/{hook}", token="token-of-ann-only").status == 403
