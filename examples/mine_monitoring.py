"""Sensors in a mine: rules give readings a priority, and the priority gives deliveries a deadline. Gas alarms overtake dust readings, and
late deliveries are counted.

    python -m examples.mine_monitoring [--readings N] [--seed N] [--address ADDRESS]
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from typing import Any

import ray_pubsub

LEVELS = ["routine", "watch", "urgent", "evacuate"]
DEADLINES = {"evacuate": 2.0, "urgent": 10.0, "watch": 60.0}
"""Seconds from a reading to the control room's screen; routine readings have no deadline."""
RULES = [
    ("gas", "evacuate", "methane >= 1.5 or co >= 100"),
    ("gas-rising", "urgent", "methane >= 1.0 and airflow < 1.5"),
    ("heat", "urgent", "temperature > 40 and depth > 400"),
    ("dust", "watch", "dust > 4"),
]


def main() -> None:
    arguments = _arguments()
    draw = random.Random(arguments.seed)
    with ray_pubsub.start(
        1,
        name="mine",
        address=arguments.address,
        levels=LEVELS,
        mailbox={"deadlines": DEADLINES, "longest_wait": 120.0},
    ) as server:
        for id, level, expression in RULES:
            server.prioritize(id, level, expression)
        server.subscribe("control-room", "depth > 0", id="everything")
        server.subscribe("rescue", "methane >= 1.5 or co >= 100", id="gas-alarm")
        result = server.publish([_reading(number, draw) for number in range(arguments.readings)], event_id="reading")
        print(
            f"{arguments.readings} readings published: {result.deliveries.delivered} deliveries for two subscribers\n"
        )

        print("what the control room sees first")
        seen: Counter[str] = Counter()
        while deliveries := server.poll("control-room", limit=20):
            for delivery in deliveries:
                if sum(seen.values()) < 6:
                    print(f"  {delivery.priority:<9} {_shown(delivery.event)}")
                seen[delivery.priority] += 1
            server.ack(deliveries)
        alarms = server.poll("rescue")
        server.ack(alarms)
        print(f"\nthe rescue team has {len(alarms)} alarms; the control room, by level:")
        on_time = server.stats().mailboxes
        assert on_time is not None
        for level in reversed(LEVELS):
            rate = on_time.on_time[level]
            deadline = f"within {DEADLINES[level]:g} s" if level in DEADLINES else "no deadline"
            print(
                f"  {level:<9}{seen[level]:>5} readings, {deadline}: {'-' if rate is None else f'{rate:.0%} on time'}"
            )


def _shown(reading: Any) -> str:
    facts = ", ".join(f"{name} {reading[name]}" for name in ("depth", "methane", "co", "temperature"))
    return f"reading {reading['reading']}: {facts}"


def _reading(number: int, draw: random.Random) -> dict[str, object]:
    return {
        "reading": number,
        "depth": draw.randrange(50, 800),
        "methane": round(draw.expovariate(3), 2),
        "co": round(draw.expovariate(0.08), 1),
        "dust": round(draw.expovariate(0.6), 1),
        "temperature": round(draw.gauss(32, 5), 1),
        "airflow": round(draw.uniform(0.5, 4), 1),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readings", type=int, default=200)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--address", default=None, help="of a Ray cluster; by default a new one")
    return parser.parse_args()


if __name__ == "__main__":
    main()
