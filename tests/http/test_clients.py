"""The clients against the real server: Python's, which needs neither Ray nor numba, and the one for TypeScript and JavaScript."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ray_pubsub
from ray_pubsub_http import HttpClient, ProblemError, Subscription
from tests.http.requesting import Interface

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "client_program.mjs"
TYPESCRIPT = ROOT / "clients" / "typescript"


def test_the_python_client(interface: Interface) -> None:
    with HttpClient(interface.url, interface.token) as client:
        assert client.subscribe("py", "py < 5", id=41) == 41
        report = client.load(
            [Subscription("py-b", "py", "py >= 5"), {"id": "bad", "subscriber": "py", "expression": "py >"}]
        )
        assert (report.added, report.rejected, report.rejections[0]["position"]) == (1, 1, 1)
        assert [each.id for each in client.subscriptions("py")] == [41, "py-b"]
        assert client.subscription(41).expression == "py < 5"
        with pytest.raises(ProblemError, match="unexpected") as raised:
            client.check("py >")
        assert (raised.value.kind, raised.value.position) == ("ExpressionSyntaxError", 4)
        published = client.publish([{"py": 1}, {"py": 7}], matches=True)
        assert (published.matches, published.delivered) == (2, 2)
        assert [each["matches"][0]["id"] for each in published.results or []] == [41, "py-b"]
        assert client.publish({"py": 9}, idempotency_key="same").delivered == 1
        assert client.publish({"py": 9}, idempotency_key="same").duplicates == 1
        assert (client.set_webhook("py", "nobody", "http://127.0.0.1:9/") or "").startswith("whsec_")
        assert client.set_webhook("py", "nobody", "http://127.0.0.1:9/new") is None
        assert client.remove_webhook("py")
        deliveries = client.poll("py", wait=5)
        assert [each.event for each in deliveries] == [{"py": 1}, {"py": 7}, {"py": 9}]
        assert client.ack(deliveries[:1]).accepted == 1
        for _ in range(2):
            client.nack(deliveries[1:], reason="no")
            deliveries = [deliveries[0], *client.poll("py")]
        assert client.extend(deliveries[1:], 60).accepted == 2
        client.nack(deliveries[1:], reason="no")
        dead = client.dead_letters("py")
        assert [each.reason for each in dead] == ["no", "no"]
        assert client.redrive("py", [dead[0].sequence]) == 1
        stream = client.stream("py")
        assert next(stream).event == {"py": 7}
        client.publish({"py": 2})
        assert next(stream).event == {"py": 2}
        stream.close()
        with pytest.warns(UserWarning, match="nobody has subscribed as 'pyy'.*'py'"):
            assert client.poll("pyy") == []
        loaded = client.load([Subscription("py-c", "py", "py = 77", {"title": "x"}, ("py-tag",))])
        carrying = client.publish({"py": 77}, with_data=True, deliver=False)
        (found,) = (each for each in (carrying.results or [])[0]["matches"] if each["id"] == "py-c")
        assert (loaded.added, found["data"], found["tags"]) == (1, {"title": "x"}, ["py-tag"])
        assert abs((carrying.moment or 0) / 1e6 - time.time()) < 600
        assert client.unsubscribe_many(tag="py-tag") == 1
        client.set_webhook("py", "nobody", "http://127.0.0.1:9/", concurrency=2, with_data=True)
        hook = interface.ask("GET", "/v1/webhooks/py").data
        assert (hook["concurrency"], hook["data"], client.remove_webhook("py")) == (2, True, True)
        assert client.explain({"py": 1})["matches"] == 1
        assert client.explain({"py": 1}, 41)["truth"] is True
        assert client.stats()["name"] == "http"
        assert client.unsubscribe(41) is True
        assert client.unsubscribe("py-b") is True


def test_the_python_client_needs_nothing_but_python() -> None:
    loaded = "{name.partition('.')[0] for name in set(sys.modules) - before}"
    code = f"import sys; before = set(sys.modules); import ray_pubsub_http; print(*{loaded})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - {"ray_pubsub_http"} <= sys.stdlib_module_names


def test_the_typescript_client(interface: Interface) -> None:
    node = shutil.which("node")
    assert node is not None, "Node.js 18 or newer is needed for this test: install the package nodejs"
    command = [node, str(SCRIPT), interface.url, interface.token]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == "all is well"


def test_the_package_has_both_files_and_the_release() -> None:
    package = json.loads((TYPESCRIPT / "package.json").read_text())
    assert package["version"] == ray_pubsub.__version__
    named = {each.removeprefix("./") for each in package["exports"]["."].values()}
    assert named == set(package["files"]) == {path.name for path in TYPESCRIPT.iterdir()} - {"package.json"}


def test_the_types_are_those_of_the_module() -> None:
    code, types = (TYPESCRIPT / "ray-pubsub.mjs").read_text(), (TYPESCRIPT / "ray-pubsub.d.mts").read_text()
    methods = set(re.findall(r"^  (?:async )?\*?(\w+)\(.*\) \{$", code, re.MULTILINE)) - {"constructor"}
    declared = set(re.findall(r"^  (\w+)\(", types[types.index("class PubSubClient") :], re.MULTILINE)) - {
        "constructor"
    }
    assert methods == declared != set()
