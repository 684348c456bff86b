"""Log-like events: 38 attributes, of which 2,000 rules with patterns test 11. Reading and matching together, as dicts and as JSON bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import ray_pubsub
from benchmarks.rules.report import Report, best_seconds
from benchmarks.rules.sizes import Sizes

RULES, COMPARED = 2000, 40
WORDS = [
    "powershell", "cmd", "rundll32", "svchost", "explorer", "chrome", "python", "java", "sshd", "cron", "systemd", "docker", "kubelet",
    "nginx", "postgres", "backup", "update", "install", "download", "invoke", "encoded", "hidden", "temp", "users", "public", "windows",
    "system32", "program", "files", "appdata", "roaming", "startup", "service", "network", "credential", "token", "admin", "guest",
]  # fmt: skip
TESTED = (
    "image", "command", "parent", "user", "host", "channel", "event_id", "target", "hash", "port", "severity",
)  # fmt: skip
OTHERS = tuple(f"field{number}" for number in range(38 - len(TESTED)))


def run(report: Report, sizes: Sizes) -> None:
    random_ = random.Random(5)
    rules = [rule(random_) for _ in range(min(RULES, sizes.rules))]
    report.step("logs: adding rules")
    index, scan = ray_pubsub.MatchIndex(), ray_pubsub.MatchIndex(engine="scan")
    for each in (index, scan):
        each.add_many(range(len(rules)), rules)
    events = [event(random_) for _ in range(sizes.batch)]
    lines = [json.dumps(each).encode() for each in events]
    match_json: Callable[[Any], Any] | None = getattr(index, "match_json", None)
    ways: list[tuple[str, Callable[[], Any] | None, float]] = [
        ("dicts", lambda: index.match_many(events), 10),
        ("JSON bytes", None if match_json is None else lambda: match_json(lines), 8),
    ]
    expected = scan.match_many(events[:COMPARED])
    for name, work, aim in ways:
        report.step(f"logs: matching {name}")
        if work is None:
            report.line(name, float("nan"), "µs an event", more=False, note="there is no match_json")
            continue
        found = work()
        for place in range(min(COMPARED, len(events))):
            assert sorted(found[place]) == sorted(expected[place]), f"{name}: event {place} differs"
        microseconds = best_seconds(work, sizes.rounds) * 1e6 / len(events)
        matches = len(found) / len(events)
        report.line(
            name, microseconds, "µs an event", must=20, aim=aim, more=False, note=f"{matches:.1f} matches an event"
        )


def path(random_: random.Random, least: int = 2, most: int = 6) -> str:
    return "\\".join(random_.choice(WORDS) + str(random_.randrange(30)) for _ in range(random_.randint(least, most)))


def event(random_: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {
        "image": path(random_), "command": f"{path(random_)} -{random_.choice(WORDS)} {path(random_)} /{random_.random():.12f}",
        "parent": path(random_), "user": f"{random_.choice(WORDS)}{random_.randrange(200)}", "host": f"host{random_.randrange(500)}",
        "channel": random_.choice(("security", "system", "application", "sysmon")), "event_id": random_.randrange(1, 40),
        "target": path(random_), "hash": f"{random_.getrandbits(128):032x}", "port": random_.randrange(65_536),
        "severity": random_.randrange(8),
    }  # fmt: skip
    for name in OTHERS:
        found[name] = random_.choice((random_.randrange(10**6), random_.random(), path(random_, 1, 3)))
    return found


def rule(random_: random.Random) -> str:
    """Returns a conjunction of one to four conditions, mostly on parts of texts; some are alternatives."""
    parts = []
    for _ in range(random_.randint(1, 4)):
        word = random_.choice(WORDS) + str(random_.randrange(30))
        parts.append(
            random_.choice(
                (
                    f"{random_.choice(('image', 'parent', 'target'))} like '%\\{word}'",
                    f"command like '%{word}%'",
                    f"(command like '%{word}%' or command like '%{word[::-1]}%')",
                    f"user = '{random_.choice(WORDS)}{random_.randrange(200)}'",
                    f"event_id in ({', '.join(str(random_.randrange(1, 40)) for _ in range(3))})",
                    f"port between {random_.randrange(1024)} and {random_.randrange(1024, 9000)}",
                    f"severity >= {random_.randrange(8)}",
                    f"channel = '{random_.choice(('security', 'sysmon'))}' and hash like '{random_.getrandbits(8):02x}%'",
                    f"not host in ('host{random_.randrange(500)}', 'host{random_.randrange(500)}')",
                )
            )
        )
    return " and ".join(dict.fromkeys(parts))
