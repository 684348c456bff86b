"""Listening with asyncio: several desks wait at once, in one thread, while events are published.

python -m examples.async_listener [--events N]
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import ray_pubsub

DESKS = {"tokyo": "region = 'asia'", "lagos": "region = 'africa'", "everything": "region is not null"}
REGIONS = ("asia", "africa")


async def listen(server: Any, desk: str, wanted: int) -> int:
    """Acknowledges deliveries one by one; those that were fetched but not reached are released when the loop ends."""
    received = 0
    async for delivery in server.listen(desk):
        await server.ack_async(delivery)
        received += 1
        print(f"{desk}: {delivery.event}")
        if received == wanted:
            break
    return received


async def publish(server: Any, events: int) -> None:
    for number in range(events):
        await server.publish_async({"region": REGIONS[number % 2], "number": number})


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10, help="how many to publish (default 10)")
    events = parser.parse_args().events
    with ray_pubsub.start(name="listener") as server:
        for desk, expression in DESKS.items():
            server.subscribe(desk, expression, id=desk)
        wanted = {"tokyo": (events + 1) // 2, "lagos": events // 2, "everything": events}
        listening = asyncio.gather(*(listen(server, desk, count) for desk, count in wanted.items() if count))
        await publish(server, events)
        print(f"{sum(await listening)} deliveries, all acknowledged")


if __name__ == "__main__":
    asyncio.run(main())
