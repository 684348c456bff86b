"""Routes orders to the systems that want them, by content: each system has a rule and a webhook, and no code of its own here.

A server, its HTTP interface and three endpoints run on this machine. Orders are published over HTTP as any program would do; matches are
posted to the endpoints, signed, and each endpoint checks the signature as a receiver should. One endpoint is down at first: its orders
are repeated.

    python -m examples.webhook_routing [--orders N] [--seed N] [--address ADDRESS]
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import ray_pubsub
from ray_pubsub_http import HttpClient

RULES = {
    "fraud-desk": "total > 900 and country != billing.country",
    "warehouse": "list_contains(tags, 'express') or weight > 20",
    "loyalty": "customer.years >= 5 and total > 100",
}
FAILS_FIRST = ("loyalty", 2)
"""This endpoint answers its first requests with 503."""


class Endpoints:
    """Receivers of webhooks, one path for each system. In production they are other programs on other machines."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        self.orders: dict[str, list[dict[str, Any]]] = {name: [] for name in RULES}
        self.refused: Counter[str] = Counter()
        self.changed = threading.Condition()
        endpoints = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(endpoints.receive(self.path[1:], self.headers, body))
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def receive(self, name: str, headers: Any, body: bytes) -> int:
        key = base64.b64decode(self.secrets[name].removeprefix("whsec_"))
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        wanted = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        if not hmac.compare_digest(wanted, headers["webhook-signature"]):
            return 401
        with self.changed:
            if name == FAILS_FIRST[0] and self.refused[name] < FAILS_FIRST[1]:
                self.refused[name] += 1
                return 503
            self.orders[name].append(json.loads(body)["event"])
            self.changed.notify_all()
        return 204

    def wait_for(self, count: int) -> None:
        with self.changed:
            self.changed.wait_for(lambda: sum(map(len, self.orders.values())) >= count, timeout=60)


def main() -> None:
    arguments = _arguments()
    draw = random.Random(arguments.seed)
    endpoints = Endpoints()
    with (
        tempfile.TemporaryDirectory() as folder,
        ray_pubsub.start(1, name="orders", address=arguments.address) as server,
        HttpInterface(server.name, server.address, Path(folder)) as interface,
        HttpClient(interface.url, interface.token) as client,
    ):
        for name, expression in RULES.items():
            client.subscribe(name, expression, id=name)
            endpoints.secrets[name] = client.set_webhook(name, name, f"{endpoints.url}/{name}") or ""
        published = client.publish([_order(number, draw) for number in range(arguments.orders)])
        print(f"{arguments.orders} orders published over HTTP, {published.delivered} deliveries\n")
        endpoints.wait_for(published.delivered)
    for name, expression in RULES.items():
        orders = endpoints.orders[name]
        again = f", after {endpoints.refused[name]} requests that it refused" if endpoints.refused[name] else ""
        print(f"{name}: {expression}\n  {len(orders)} orders{again}")
        for order in sorted(orders, key=lambda order: int(order["order"]))[:2]:
            print(f"    {json.dumps(order)[:74]}…")
    missing = published.delivered - sum(map(len, endpoints.orders.values()))
    print(f"\nposted, signatures checked: {published.delivered - missing}; missing: {missing}")


class HttpInterface:
    """`ray-pubsub serve` in a process of its own, on a free port."""

    def __init__(self, server: str, address: str, folder: Path) -> None:
        command = [sys.executable, "-m", "actors.http", server, "--address", address, "--port", "0"]
        # Webhooks to private addresses are refused unless their network is allowed.
        command += ["--state-dir", str(folder), "--allow-network", "127.0.0.1/32"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        self.url = next(line for line in self._process.stderr if "http://" in line).split()[1].rstrip("/")
        threading.Thread(target=self._process.stderr.read, daemon=True).start()
        self._token = folder / "admin-token"

    @property
    def token(self) -> str:
        while not self._token.exists() and self._process.poll() is None:
            threading.Event().wait(0.05)  # it is written when the process has started
        return self._token.read_text().strip()

    def __enter__(self) -> HttpInterface:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait()


def _order(number: int, draw: random.Random) -> dict[str, Any]:
    country = draw.choice(["DE", "FR", "PL", "US"])
    return {
        "order": number,
        "total": round(draw.expovariate(1 / 300), 2),
        "weight": round(draw.expovariate(1 / 8), 1),
        "country": country,
        "billing": {"country": country if draw.random() < 0.9 else "XX"},
        "customer": {"years": draw.randrange(12)},
        "tags": draw.sample(["gift", "express", "fragile", "b2b"], draw.randrange(3)),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--address", default=None, help="of a Ray cluster; by default a new one")
    return parser.parse_args()


if __name__ == "__main__":
    main()
