"""Routes of subscriptions with terms: events are sent by the attributes that the terms depend on."""

from __future__ import annotations

import pytest

from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.settings import Limits
from ray_pubsub.sharding.pivots import UNIVERSAL, PivotChooser, Route

ROUTES = [
    ("lower(name) = 'x'", Route(("name",))),
    ("b + a > 5", Route(("a",))),
    ("list_contains(tags, 'a') or ip_in(src, '10.0.0.0/8')", Route(("tags", "src"))),
    ("not list_contains(tags, 'a')", Route(("tags",))),
    ("exists(items, n > 1)", Route(("items",))),
    ("geo_within(lat, lon, 1, 2, 3)", Route(("lat",))),
    ("at > now() - interval '1 hour'", Route(("at",))),
    ("coalesce(a, b) = 5", UNIVERSAL),
    ("lower(name) is null", UNIVERSAL),
    ("now() > timestamp '2024-01-01'", UNIVERSAL),
    ("case when a > 1 then 1 else 2 end = 2", UNIVERSAL),
]


@pytest.mark.parametrize(("text", "route"), ROUTES)
def test_routes(text: str, route: Route) -> None:
    found = PivotChooser().route(ShapeCache(Limits()).parse(text))
    assert (set(found.attributes), found.universal) == (set(route.attributes), route.universal)
