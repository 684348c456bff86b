"""Detection rules in files, each with a title and a level, matched against log lines in JSON.

python -m examples.log_detection [--rules FOLDER] [--logs FILE]

A rule is a TOML file; `where` is what to look for:

    title = "Shell started by a web server"
    level = "critical"
    where = "event = 'process' and process.parent in ('nginx', 'httpd') and process.name in ('sh', 'bash')"
"""

from __future__ import annotations

import argparse
import json
import textwrap
import tomllib
from pathlib import Path

import ray_pubsub

HERE = Path(__file__).parent
LEVELS = ["low", "medium", "high", "critical"]


def main() -> None:
    arguments = _arguments()
    rules = {path.stem: tomllib.loads(path.read_text()) for path in sorted(arguments.rules.glob("*.toml"))}
    index = ray_pubsub.MatchIndex()
    report = index.add_many(list(rules), [rule["where"] for rule in rules.values()])
    for rejection in report.rejections:  # one bad rule stops no other
        print(f"{rejection.id}.toml: {rejection.error}\n")

    lines = arguments.logs.read_bytes()
    matches, events = index.match_json(lines), [json.loads(line) for line in lines.splitlines()]
    print(f"{len(index)} rules, {len(events)} log lines, {sum(1 for ids in matches if ids)} of them suspicious\n")
    found = [
        (max((rules[id]["level"] for id in ids), key=LEVELS.index), event, ids)
        for event, ids in zip(events, matches, strict=True)
        if ids
    ]
    for level, event, ids in sorted(found, key=lambda alert: -LEVELS.index(alert[0])):
        print(f"{level:<9}{event['time']}  {event['host']:<8}{', '.join(rules[id]['title'] for id in ids)}")
    level, event, ids = max(found, key=lambda alert: LEVELS.index(alert[0]))
    print(f"\nwhy: {rules[ids[0]]['title']}")
    for line in str(index.explain(event, ids[0])).splitlines():
        print(textwrap.fill(line, 80, subsequent_indent="      "))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", type=Path, default=HERE / "rules")
    parser.add_argument("--logs", type=Path, default=HERE / "logs.jsonl")
    return parser.parse_args()


if __name__ == "__main__":
    main()
