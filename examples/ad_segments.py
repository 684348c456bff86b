"""Ad segments: campaigns define whom they want to reach, and page views arrive as Arrow tables. Which campaigns may bid, and how large is
each audience?

    python -m examples.ad_segments [--campaigns N] [--views N] [--seed N]
"""

from __future__ import annotations

import argparse
import random
import textwrap
from collections import Counter
from typing import Any

import pyarrow as pa

import ray_pubsub

COUNTRIES, DEVICES = ["de", "fr", "it", "pl", "se", "us"], ["phone", "tablet", "desktop", "tv"]
TOPICS = ["sport", "travel", "cars", "cooking", "music", "science", "finance", "games"]


def main() -> None:
    arguments = _arguments()
    draw = random.Random(arguments.seed)
    index = ray_pubsub.MatchIndex()
    index.add_many(
        [f"campaign-{number}" for number in range(arguments.campaigns)],
        [_segment(draw) for _ in range(arguments.campaigns)],
        atomic=True,
    )
    views = _views(arguments.views, draw)
    matches = index.match_many(views, event_id="view")

    audience = Counter(matches.subscription_ids.tolist())
    print(f"{len(index):,} campaigns, {views.num_rows:,} page views, {len(matches):,} possible bids")
    print(
        f"a page view interests {len(matches) / views.num_rows:.1f} campaigns; {len(index) - len(audience):,} reach nobody\n"
    )
    print("the widest audiences")
    for campaign, count in audience.most_common(4):
        print(_line(campaign, count, index))
    print("the narrowest")
    for campaign, count in audience.most_common()[-3:]:
        print(_line(campaign, count, index))
    one = views.slice(0, 1).to_pylist()[0]
    print(f"\nhow one page view is matched (of {len(index):,} campaigns, most are never looked at):")
    print(str(index.explain(one)))


def _line(campaign: str, count: int, index: ray_pubsub.MatchIndex) -> str:
    head = f"  {campaign:<14}{count:>6} {'view ' if count == 1 else 'views'}   "
    return textwrap.fill(index.expression(campaign), 80, initial_indent=head, subsequent_indent=" " * len(head))


def _segment(draw: random.Random) -> str:
    age = draw.randrange(18, 60)
    parts = [
        f"age between {age} and {age + draw.randrange(5, 20)}",
        f"country in ('{draw.choice(COUNTRIES)}', '{draw.choice(COUNTRIES)}')",
        f"device = '{draw.choice(DEVICES)}'",
        f"topic = '{draw.choice(TOPICS)}'",
        f"visits >= {draw.randrange(1, 30)}",
        "not opted_out",
    ]
    chosen = draw.sample(parts[:-1], draw.randrange(2, 5))
    return " and ".join([*chosen, parts[-1]])


def _views(count: int, draw: random.Random) -> Any:
    return pa.table(
        {
            "view": list(range(count)),
            "age": [draw.randrange(14, 80) for _ in range(count)],
            "country": draw.choices(COUNTRIES, k=count),
            "device": draw.choices(DEVICES, k=count),
            "topic": draw.choices(TOPICS, k=count),
            "visits": [min(60, int(draw.expovariate(0.1))) for _ in range(count)],
            "opted_out": [draw.random() < 0.1 for _ in range(count)],
        }
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=50_000)
    parser.add_argument("--views", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
