"""Air-quality alerts: residents define what they want to be warned about, and an hour of readings arrives. Who is warned, and why?

python -m examples.air_quality [--residents N] [--stations N] [--seed N]
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from typing import Any

import ray_pubsub

DISTRICTS = ["Harbour", "Old Town", "Hillside", "Airport", "University", "Meadows"]
# A subscription constrains few of many attributes, in wide or narrow ranges: the case that GEM (grouped equal-space matching) was
# designed for.
WISHES = [
    ("asthma", "pm25 > {low} and district = '{district}'"),
    ("athlete", "(o3 > {high} or pm10 > {high}) and temperature > 15"),
    ("parent", "no2 > {low} and district = '{district}' and hour between 7 and 9"),
    ("city", "pm25 > {high} and wind_speed < 2"),
    ("allergy", "pollen > {high} and district = '{district}' and humidity < 60 and not rain"),
]
LIMITS = {"pm25": 25, "pm10": 50, "no2": 40, "o3": 100}


def main() -> None:
    arguments = _arguments()
    draw = random.Random(arguments.seed)
    index, kinds = ray_pubsub.MatchIndex("gem"), {}
    for number in range(arguments.residents):
        kind, template = draw.choice(WISHES)
        kinds[number] = kind
        low, high = draw.randrange(10, 60), draw.randrange(60, 140)
        index.add(number, template.format(low=low, high=high, district=draw.choice(DISTRICTS)))
    readings = [_reading(station, draw) for station in range(arguments.stations)]
    matches = index.match_many(readings, event_id="station")

    print(f"{len(index):,} residents, {len(readings)} readings, {len(matches):,} alerts\n")
    print(f"{'station':<12}{'district':<12}{'pm2.5':>6}{'no2':>6}{'o3':>6}  alerts")
    for reading, ids in sorted(zip(readings, matches, strict=True), key=lambda pair: -len(pair[1]))[:8]:
        who = ", ".join(f"{count} {kind}" for kind, count in Counter(kinds[id] for id in ids).most_common(3))
        print(
            f"{reading['station']:<12}{reading['district']:<12}{reading['pm25']:>6}{reading['no2']:>6}{reading['o3']:>6}  {who or '-'}"
        )
    worst = max(range(len(readings)), key=lambda position: len(matches[position]))
    warned = matches[worst][0]
    print(f"\nwhy resident {warned} is warned of {readings[worst]['station']}:")
    print(index.explain(readings[worst], warned))
    over = sum(any(reading[name] > limit for name, limit in LIMITS.items()) for reading in readings)
    print(f"\n{over} stations are over a legal limit; {sum(1 for ids in matches if ids)} have somebody to warn")


def _reading(number: int, draw: random.Random) -> dict[str, Any]:
    traffic = draw.random()
    return {
        "station": f"station-{number}",
        "district": draw.choice(DISTRICTS),
        "hour": 8,
        "pm25": round(5 + 60 * traffic * draw.random(), 1),
        "pm10": round(10 + 90 * traffic * draw.random(), 1),
        "no2": round(8 + 80 * traffic, 1),
        "o3": round(130 * (1 - traffic), 1),
        "temperature": draw.randrange(5, 30),
        "humidity": draw.randrange(30, 95),
        "wind_speed": round(draw.uniform(0, 8), 1),
        "pollen": draw.randrange(0, 90),
        "rain": draw.random() < 0.2,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--residents", type=int, default=20_000)
    parser.add_argument("--stations", type=int, default=60)
    parser.add_argument("--seed", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
