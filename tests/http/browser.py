"""A real browser without a window, driven by its own protocol over a pipe (Chrome DevTools): nothing has to be installed but Chromium."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
    ),
    *(
        "--disable-component-update",
        "--disable-sync",
        "--disable-extensions",
        "--hide-scrollbars",
        "--remote-debugging-pipe",
    ),
)
PATIENCE = 60.0
ARRANGE = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 20) for each in sys.argv[1:3]]  # out of the way of 3 and 4
os.dup2(pipes[0], 3)
os.dup2(pipes[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str:
    """Installs Debian's package where that is possible. Fails the test where no browser can be had."""
    for _ in range(2):
        for name in NAMES:
            if found := shutil.which(name):
                return found
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            break
        install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium"]
        for command in (["apt-get", "update", "--quiet"], install):
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
        if done.returncode:
            pytest.fail(f"Chromium could not be installed:\n{done.stderr[-2000:]}", pytrace=False)
    pytest.fail("this test needs a browser: install chromium (Debian: apt-get install chromium)", pytrace=False)


class Browser:
    """One page."""

    def __init__(self, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # The browser reads from 3 and writes to 4, which another program arranges: code between fork and exec is unsafe beside threads.
        command = [find_chromium(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", ARRANGE, str(to_read), str(to_write), *command],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for descriptor in (to_read, to_write):
            os.close(descriptor)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.requested: list[str] = []
        """Every URL that the page has asked for."""
        self.complaints: list[str] = []
        """Exceptions, and what the browser has refused."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(1280, 900)

    def close(self) -> None:
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(10)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._read)
            os.close(self._write)

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        ends = time.monotonic() + PATIENCE
        while True:
            answer = self._next(ends)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _next(self, ends: float) -> Any:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, ends - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: Any) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requested.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error" and told["entry"]["source"] != "network":
            self.complaints.append(told["entry"]["text"])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, code: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Waits in the page, not here, so that nothing is missed and nothing asked in vain."""
        code = f"new Promise((done) => {{ const look = () => ({condition}) ? done(true) : setTimeout(look, 20); look(); }})"
        assert self.run(code) is True

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).textContent"))

    def fill(self, selector: str, text: str) -> None:
        """As if it was typed."""
        self.run(f"(document.querySelector({json.dumps(selector)}).focus(), document.activeElement.value = '')")
        self.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def key(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, scheme: str) -> None:
        """light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
