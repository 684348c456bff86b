"""The web console in a real browser, against the real server. With SCREENSHOTS=folder it leaves pictures there (`make screenshots`)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.client.server import Server
from actors.http.settings import HttpSettings
from tests.http.browser import Browser
from tests.http.conftest import running
from tests.http.requesting import Interface

LARGE = 2**53
HOSTILE = "<img src=x onerror='window.hacked=1'>"
FOLDER = os.environ.get("SCREENSHOTS")
TAB, ENTER, RIGHT = 9, 13, 39

# Every text that is visible, and its contrast with what is behind it (WCAG 2.2, 1.4.3).
CONTRAST = """
(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const channel = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) => 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest("svg, .skip, .unseen")) continue;
    const [one, other] = [luminance(parse(getComputedStyle(node).color)), luminance(behind(node))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.push(`${node.tagName} ${node.className} ${node.textContent.slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return found;
})()
"""
UNNAMED = """
[...document.querySelectorAll("button, input, textarea, [role=img]")].filter((node) => node.checkVisibility()
  && !(node.textContent.trim() || node.getAttribute("aria-label") || node.labels?.length)).map((node) => node.outerHTML.slice(0, 80))
"""

# True if no table must be scrolled and no text of a picture is outside of it. Plots follow the width when they are drawn the next time.
NOTHING_IS_CUT_OFF = """
[...document.querySelectorAll(".scroll")].every((node) => !node.checkVisibility() || node.scrollWidth <= node.clientWidth)
  && [...document.querySelectorAll(".plot text, .cells text")].every((text) => !text.checkVisibility()
    || (text.getBoundingClientRect().left >= text.ownerSVGElement.getBoundingClientRect().left
      && text.getBoundingClientRect().right <= text.ownerSVGElement.getBoundingClientRect().right + 1))
"""


@pytest.fixture(scope="module")
def page(interface: Interface, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    phones = [("iphone5s", 580), ("iphone5s", 400), ("galaxy", 300), ("nexus", 250)]
    lines = [
        json.dumps(
            {
                "id": f"wish-{n}",
                "subscriber": f"person-{n % 5}",
                "expression": f"model = '{model}' and price <= {price + n}",
            }
        )
        for n, (model, price) in enumerate(phones * 10)
    ]
    interface.ask(
        "POST", "/v1/subscriptions/bulk", "\n".join(lines).encode(), headers={"Content-Type": "application/x-ndjson"}
    )
    interface.ask(
        "PUT",
        "/v1/subscriptions/hostile",
        {"subscriber": HOSTILE, "expression": f"name = '{HOSTILE.replace(chr(39), '')}'"},
    )
    interface.ask("PUT", "/v1/rules/urgent", {"level": "critical", "expression": "price < 200"})
    publish(interface, range(60))
    dead = interface.ask("POST", "/v1/subscribers/person-0/poll?limit=3").data["items"]
    for _ in range(3):
        interface.ask(
            "POST",
            "/v1/subscribers/person-0/nack",
            {"receipts": [each["receipt"] for each in dead], "reason": "HTTP 500"},
        )
        dead = interface.ask("POST", "/v1/subscribers/person-0/poll?limit=3").data["items"]
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()
    for number in range(5):
        interface.ask("DELETE", f"/v1/subscribers/person-{number}")
    interface.ask("DELETE", "/v1/rules/urgent")
    interface.ask("DELETE", "/v1/subscriptions/hostile")


def publish(interface: Interface, numbers: range) -> None:
    events = [{"model": "iphone5s", "price": 100 + 7 * (n % 60), "shop": f"shop {n % 3}"} for n in numbers]
    body = "\n".join(map(json.dumps, events)).encode()
    interface.ask("POST", "/v1/events", body, headers={"Content-Type": "application/x-ndjson"})


def picture(page: Browser, name: str) -> None:
    if FOLDER:
        page.screenshot(Path(FOLDER) / f"console-{name}.png")


def check_readable(page: Browser) -> None:
    """In both colour schemes, whatever is shown at the moment."""
    for scheme in ("dark", "light"):
        page.scheme(scheme)
        assert page.run(CONTRAST) == []
    assert page.run(UNNAMED) == []


def test_the_console(interface: Interface, page: Browser) -> None:
    """One test, as one visit: each step needs the one before it."""
    page.open(interface.url)
    # A wrong token is refused, and the right one lets in, by keyboard alone.
    page.until("document.activeElement.id === 'token'")
    page.call("Input.insertText", text="not the token at all")
    page.key("Enter", ENTER)
    page.until("document.querySelector('#token-error').textContent.includes('unknown')")
    check_readable(page)
    page.fill("#token", interface.token)
    page.key("Enter", ENTER)
    page.until("document.querySelectorAll('.process').length >= 3 && !document.querySelector('#overview').hidden")
    assert page.run("document.activeElement.id") == "tab-overview"
    assert page.text("#connection") == "✓ connected"
    assert page.run("document.querySelectorAll('#tiles .tile').length") == 6
    # With so few subscriptions nothing is in a segment yet; the tail is drawn.
    page.until("document.querySelector('svg.cells rect.tail')")
    assert "tail with" in page.run("document.querySelector('svg.cells').getAttribute('aria-label')")
    if FOLDER:  # pictures show a server at work
        for number in range(12):
            publish(interface, range(50 * number % 170))
            page.run("new Promise((done) => setTimeout(done, 1000))")
    page.until("document.querySelectorAll('#rate-plot path').length === 2")
    assert "wish-" in page.text("#hot")
    check_readable(page)
    picture(page, "overview")

    # Subscriptions: live errors, back-test, add, search, remove.
    page.run("document.querySelector('#tab-overview').focus()")
    page.key("ArrowRight", RIGHT)
    page.until(
        "document.activeElement.id === 'tab-subscriptions' && document.querySelectorAll('#subscription-list tr').length > 10"
    )
    page.fill("#add-expression", "price <= 200 and model =")
    page.until("document.querySelector('#expression-state').classList.contains('wrong')")
    shown = page.text("#expression-state")
    assert "^" in shown and "expected" in shown
    check_readable(page)
    picture(page, "subscriptions")
    page.fill("#add-expression", "price <= 205 and model = 'iphone5s'")
    page.until("document.querySelector('#expression-state').textContent.startsWith('✓')")
    page.click("#backtest")
    page.until("document.querySelector('#backtest-result').textContent.includes('would have matched')")
    said = page.text("#backtest-result")
    assert FOLDER or "matched 16 of the last" in said
    page.fill("#add-expression", "price <= 206 and model = 'iphone5s'")
    assert page.text("#backtest-result") == "", "it was about another expression"
    page.fill("#add-subscriber", "person-1")
    page.fill("#add-id", "from-the-browser")
    page.fill("#add-tags", " sale, from browsers ,")
    page.fill("#add-data", '{"title": "a draft"')
    page.click("#add-form .primary")
    page.until("document.querySelector('#data-state').textContent.includes('is not JSON')")
    check_readable(page)
    page.fill("#add-data", '{"title": "a draft"}')
    page.click("#add-form .primary")
    page.until("document.querySelector('#add-result').textContent.includes('from-the-browser')")
    assert page.text("#data-state") == ""
    made = interface.ask("GET", "/v1/subscriptions/from-the-browser").data
    assert (made["subscriber"], made["tags"], made["data"]) == (
        "person-1",
        ["from browsers", "sale"],
        {"title": "a draft"},
    )
    page.fill("#search", "tag:from browsers")
    page.key("Enter", ENTER)
    page.until("document.querySelectorAll('#subscription-list tbody tr').length === 1")
    assert all(text in page.text("#subscription-list") for text in ("from-the-browser", "sale", '"a draft"'))
    page.click("#subscription-list .danger")
    page.until("document.querySelector('#subscription-list .danger').textContent === 'Really?'")
    assert interface.ask("GET", "/v1/subscriptions/from-the-browser").status == 200
    page.click("#subscription-list .danger")
    page.until("document.querySelector('#subscription-list .empty')")
    assert interface.ask("GET", "/v1/subscriptions/from-the-browser").status == 404

    # Numbers that JavaScript would round: the one that is shown is the one that is removed.
    for number in (LARGE, LARGE + 1):
        body = {"subscriber": "person-1", "expression": f"large = {number}", "data": {"number": number}}
        interface.ask("PUT", f"/v1/subscriptions/int:{number}", body)
    page.fill("#search", f"large = {LARGE + 1}")
    page.key("Enter", ENTER)
    page.until("document.querySelectorAll('#subscription-list tbody tr').length === 1")
    assert page.text("#subscription-list td code") == f"{LARGE + 1}"
    assert f'{{"number":"{LARGE + 1}"}}' in page.text("#subscription-list")
    for _ in range(2):
        page.click("#subscription-list .danger")
    page.until("document.querySelector('#subscription-list .empty')")
    statuses = [interface.ask("GET", f"/v1/subscriptions/int:{number}").status for number in (LARGE, LARGE + 1)]
    assert statuses == [200, 404]

    # What a hostile subscriber has written is text, and nothing runs.
    page.fill("#search", "onerror")
    page.key("Enter", ENTER)
    page.until("document.querySelectorAll('#subscription-list tbody tr').length === 1")
    assert HOSTILE in page.text("#subscription-list")
    assert page.run("document.querySelectorAll('#subscription-list img').length + Number(window.hacked ?? 0)") == 0

    # Explain: matches, the pipeline, and why.
    page.click("#tab-explain")
    page.fill("#event", '{"model": "iphone5s", "price": 430}')
    page.click("#explain-form .primary")
    page.until("document.querySelectorAll('.steps li').length > 0")
    expected = interface.ask("POST", "/v1/explain", {"event": {"model": "iphone5s", "price": 430}}).data["matches"]
    assert page.text("#explain-state").startswith(f"{expected} matches")
    page.click("#explanation td .plain")
    page.until("document.querySelectorAll('ul.tree li').length === 3")
    assert "✓" in page.text("ul.tree")
    check_readable(page)
    picture(page, "explain")
    page.fill("#event", f'{{"large": {LARGE}}}')
    page.click("#explain-form .primary")
    page.until("document.querySelector('#explain-state').textContent.startsWith('1 match')")
    page.fill("#event", '{"model": "iphone5s", "price": 430}')
    page.click("#explain-form .primary")
    page.until(f"document.querySelector('#explain-state').textContent.startsWith('{expected} matches')")
    page.fill("#why-id", "wish-1")
    page.key("Enter", ENTER)
    page.until("document.querySelector('#explanation [aria-live] h3')?.textContent === 'wish-1 does not match'")
    assert "✗" in page.text("ul.tree")

    # Mailboxes, and dead letters that are delivered again.
    page.click("#tab-mailboxes")
    page.until(
        "document.querySelectorAll('.level').length === 4 && document.querySelectorAll('#fullest tbody tr').length > 0"
    )
    page.fill("#dead-subscriber", "person-0")
    page.click("#dead-form button")
    page.until("document.querySelectorAll('#dead-list tbody tr').length === 3")
    parts = "['td:last-child', 'td button'].map((each) => document.querySelector(`#fullest tr:has(button) ${each}`))"
    edges = f"{parts}.map((each) => each.getBoundingClientRect().right)"
    assert page.run(f"(([cell, button]) => cell === button)({edges})"), "under each other, as other numbers are"
    assert "HTTP 500" in page.text("#dead-list")
    check_readable(page)
    picture(page, "mailboxes")
    page.click("#dead-list .actions button")
    page.until("document.querySelector('#dead-list .empty')")
    assert interface.ask("GET", "/v1/subscribers/person-0/dead-letters").data["items"] == []

    # On a telephone nothing is beside the screen.
    page.size(390, 844)
    for name in ("overview", "subscriptions", "explain", "mailboxes"):
        page.click(f"#tab-{name}")
        assert page.run("document.documentElement.scrollWidth") == 390, name
        assert page.run(f"document.querySelectorAll('#{name} .scroll, #{name} svg').length") > 0, name
        page.until(NOTHING_IS_CUT_OFF)
    ends = "['h1', '#sign-out'].map((each) => document.querySelector(each).getBoundingClientRect())"
    assert page.run(f"(([one, other]) => one.top < other.bottom && other.top < one.bottom)({ends})"), "one line"
    page.click("#tab-subscriptions")
    page.fill("#search", "price <= 58")
    page.key("Enter", ENTER)
    page.until("document.querySelectorAll('#subscription-list tbody tr').length > 1")
    page.until(NOTHING_IS_CUT_OFF)
    page.run("document.querySelector('#search-form').scrollIntoView()")
    picture(page, "narrow")
    page.size(1280, 900)

    page.scheme("dark")
    page.click("#tab-overview")
    page.until("!document.querySelector('#overview').hidden")
    picture(page, "overview-dark")
    assert page.complaints == []
    assert [url for url in page.requested if not url.startswith(interface.url) and url != "about:blank"] == []


def test_an_open_interface_asks_for_no_token(server: Server, page: Browser, tmp_path: Path) -> None:
    for interface in running(HttpSettings(server="http", port=0, state_dir=str(tmp_path), open=True)):
        page.open(interface.url)
        page.until("document.querySelectorAll('.process').length >= 3 && document.querySelector('#sign-in').hidden")
        assert page.run("document.querySelector('#sign-out').hidden") is True


@pytest.mark.parametrize("text", ["a\u202eb", "a\nb", "x" * 5000], ids=["direction", "line", "length"])
def test_names_change_nothing_but_themselves(interface: Interface, page: Browser, text: str) -> None:
    page.open(interface.url)
    code = "import('/console/elements.js').then((elements) => elements.short(" + json.dumps(text) + "))"
    shown = page.run(code)
    assert shown.isprintable() and len(shown) < 200


def test_the_page_may_run_nothing_but_its_own_files(interface: Interface) -> None:
    answer = interface.ask("GET", "/", token=None)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "script-src 'self'" in policy
    assert "http" not in answer.body.decode().replace("http-equiv", "").replace("HTTP", "")
    folder = Path(__file__).parents[2] / "actors" / "http" / "console"
    for path in folder.iterdir():
        served = interface.ask("GET", f"/console/{path.name}", token=None)
        assert (served.status, served.body) == (200, path.read_bytes())
        assert "innerHTML" not in served.body.decode().replace("no innerHTML in this console", "")
    assert interface.ask("GET", "/console/..%2Fserving.py", token=None).status == 404
