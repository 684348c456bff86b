"""The server in twenty lines: start, subscribe, publish, poll, acknowledge.

python -m examples.quickstart_server
"""

from __future__ import annotations

import ray_pubsub


def main() -> None:
    # Uses the Ray cluster on this machine if RAY_ADDRESS names one, else starts its own; address="local" always starts one.
    with ray_pubsub.start(name="quickstart") as server:
        server.subscribe("desk-7", "model = 'iphone5s' and price <= 580", id="s1")
        server.subscribe("desk-7", "color in ('silver', 'gold')", id="s2")
        server.prioritize("r1", "critical", "price < 100")
        result = server.publish([{"model": "iphone5s", "price": 550}, {"color": "gold", "price": 90}])
        print(result, list(result.subscription_ids), list(result.priorities))
        for delivery in server.poll("desk-7", wait=1.0):  # the critical one comes first
            print(delivery.priority, delivery.subscription_id, delivery.event)
            server.ack(delivery)
        print(server.explain({"model": "iphone5s", "price": 600}, "s1"))


if __name__ == "__main__":
    main()
