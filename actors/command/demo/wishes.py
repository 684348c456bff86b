"""Wishes and products of an imaginary shop."""

from __future__ import annotations

import random

__all__ = ["product", "wish"]

BRANDS = ["Acme", "Bosco", "Corvid", "Dynamo", "Élan", "Fjord", "Globex", "Hoshi", "Initech", "Jolt"]
CATEGORIES = ["phone", "laptop", "camera", "headphones", "watch", "tablet", "tv", "console", "e-reader", "drone"]
COLORS = ["black", "white", "silver", "red", "blue", "green", "gold"]


def wish(random_: random.Random) -> str:
    """Returns one shopper's wish, in one of the shapes that people use."""
    brand, category = random_.choice(BRANDS), random_.choice(CATEGORIES)
    price = random_.randrange(50, 2_000)
    match random_.randrange(5):
        case 0:
            return f"category = '{category}' and brand = '{brand}' and price <= {price}"
        case 1:
            colors = "', '".join(random_.sample(COLORS, 2))
            return f"category = '{category}' and color in ('{colors}') and price between {price // 3} and {price}"
        case 2:
            return f"brand = '{brand}' and rating >= {random_.uniform(3, 5):.1f} and not refurbished"
        case 3:
            return f"category = '{category}' and (price < {price // 2} or discount >= {random_.randrange(20, 70)})"
        case _:
            return f"model like '{brand[:2]}%' and storage_gb in (64, 128) and price < {price} and seller is null"


def product(random_: random.Random) -> dict[str, object]:
    brand = random_.choice(BRANDS)
    event: dict[str, object] = {
        "brand": brand,
        "category": random_.choice(CATEGORIES),
        "color": random_.choice(COLORS),
        "model": f"{brand} {random_.randrange(1, 20)}",
        "price": round(random_.uniform(20, 2_000), 2),
        "rating": round(random_.uniform(1, 5), 1),
        "refurbished": random_.random() < 0.2,
        "storage_gb": random_.choice([32, 64, 128, 256]),
    }
    if random_.random() < 0.3:
        event["discount"] = random_.randrange(5, 80)
    if random_.random() < 0.2:
        event["seller"] = "marketplace"
    return event
