"""Draws the documentation's pictures from what the library itself says: python -m docs.draw_pictures

Each picture is an SVG without scripts or fonts of its own, the same in every run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from html import escape
from pathlib import Path

import ray_pubsub

FOLDER = Path(__file__).parent / "pictures"
INK, FAINT, BLUE, GREEN, RED = "#24292f", "#8c959f", "#3b82c4", "#2e8b57", "#c0504d"
FONT = "font-family='ui-monospace, Menlo, Consolas, monospace' font-size='13'"
EVENT = {"model": "iphone5s", "price": 550, "color": "gold", "rating": 4.5, "storage": 64}


def pictures() -> dict[str, str]:
    """By file name."""
    return {"survivors.svg": survivors(), "explanation.svg": explanation(), "server.svg": server()}


def survivors() -> str:
    """One event in an index of 20,000 subscriptions: how many are left after each step, as `explain` counts them."""
    draw = random.Random(1)
    index = ray_pubsub.MatchIndex("gem")
    index.add_many(range(20_000), [_subscription(draw) for _ in range(20_000)], atomic=True)
    (segment,) = index.explain(EVENT).segments
    (pipeline,) = segment.pipelines
    rows = [("all clauses", pipeline.clauses)] + [
        (f"{step.attribute or step.method}", step.actual) for step in pipeline.steps
    ]
    most, parts = (
        rows[0][1],
        [_text(10, 22, f"one event, {len(index):,} subscriptions: what is left after each attribute", INK, "bold")],
    )
    for number, (name, count) in enumerate(rows):
        top = 40 + 26 * number
        width = max(2, round(430 * count / most))
        parts.append(_text(10, top + 15, name[:20], INK))
        parts.append(
            f"<rect x='180' y='{top}' width='{width}' height='20' rx='3' fill='{GREEN if number == len(rows) - 1 else BLUE}'/>"
        )
        parts.append(_text(190 + width, top + 15, f"{count:,}", FAINT))
    return _svg(720, 52 + 26 * len(rows), parts)


def _subscription(draw: random.Random) -> str:
    low = draw.randrange(900)
    tests = [
        f"price between {low} and {low + draw.randrange(50, 400)}",
        f"rating >= {draw.randrange(10, 50) / 10}",
        f"storage <= {draw.choice([32, 64, 128, 256])}",
        f"color in ('{draw.choice(['gold', 'silver', 'black'])}', '{draw.choice(['red', 'white'])}')",
        f"model = '{draw.choice(['iphone5s', 'iphone6', 'galaxy', 'pixel'])}'",
    ]
    return " and ".join(tests)


def explanation() -> str:
    """Why a subscription matched: the tree that `explain` prints, with colours for its marks."""
    index = ray_pubsub.MatchIndex()
    index.add(
        "s1",
        "model = 'iphone5s' and (price <= 500 or color in ('gold', 'silver')) and refurbished is null and seller = 'shop'",
    )
    found = index.explain(EVENT, "s1")
    lines = str(found).splitlines()
    parts = [_text(10, 22, "index.explain(event, 's1')", INK, "bold")]
    colors = {"✓": GREEN, "✗": RED, "?": "#b8860b"}
    for number, line in enumerate(lines):
        mark = line.lstrip()[:1]
        parts.append(
            _text(10 + 8 * (len(line) - len(line.lstrip())) + 10, 48 + 22 * number, line.strip(), colors.get(mark, INK))
        )
    return _svg(720, 60 + 22 * len(lines), parts)


def server() -> str:
    """The processes of a server and what goes between them."""
    boxes = {
        "program": (20, 60, "your program", "Server"),
        "coordinator": (310, 60, "coordinator", "publishes, prioritizes"),
        "shards": (600, 60, "shards 0 … n", "match"),
        "mailboxes": (310, 190, "mailboxes", "wait for acknowledgement"),
        "registry": (600, 190, "registry", "subscriptions, on disk"),
    }
    parts = [_text(20, 30, "each box is a process; each restarts by itself", FAINT)]
    for x, y, title, text in boxes.values():
        parts.append(f"<rect x='{x}' y='{y}' width='210' height='60' rx='6' fill='#f6f8fa' stroke='{INK}'/>")
        parts.append(_text(x + 12, y + 26, title, INK, "bold"))
        parts.append(_text(x + 12, y + 46, text, FAINT))
    parts += [
        _arrow(230, 82, 308, 82), _text(246, 76, "events", BLUE), _arrow(308, 104, 230, 104), _text(242, 120, "matches", BLUE),
        _arrow(520, 82, 598, 82), _text(532, 76, "batches", BLUE), _arrow(598, 104, 520, 104), _text(532, 120, "matches", BLUE),
        _arrow(415, 120, 415, 188), _text(424, 160, "deliveries", BLUE),
        _arrow(308, 230, 110, 122), _text(120, 200, "poll, ack", BLUE),
        _arrow(705, 188, 705, 122), _text(714, 160, "changes", BLUE),
        _arrow(598, 205, 500, 122), _text(566, 160, "routes", BLUE),
    ]  # fmt: skip
    return _svg(830, 270, parts)


def _text(x: float, y: float, text: str, color: str, weight: str = "normal") -> str:
    return f"<text x='{x:g}' y='{y:g}' fill='{color}' font-weight='{weight}' {FONT} xml:space='preserve'>{escape(text)}</text>"


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    return f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='{BLUE}' stroke-width='1.6' marker-end='url(#tip)'/>"


def _svg(width: int, height: int, parts: list[str]) -> str:
    head = f"<path d='M0,0 L8,4 L0,8 z' fill='{BLUE}'/>"
    tip = f"<marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>{head}</marker>"
    body = "\n".join(parts)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' role='img'>\n"
        f"<defs>{tip}</defs>\n<rect width='{width}' height='{height}' fill='white'/>\n{body}\n</svg>\n"
    )


def changed() -> Iterator[str]:
    """The pictures that are not as they would be drawn now."""
    for name, text in pictures().items():
        path = FOLDER / name
        if not path.exists() or path.read_text() != text:
            yield name


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
