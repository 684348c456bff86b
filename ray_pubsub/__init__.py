"""Content-based publish/subscribe: standing boolean queries, matched exactly against streams of events.

>>> import ray_pubsub
>>> index = ray_pubsub.MatchIndex()
>>> index.add("s1", "model = 'iphone5s' and price <= 580")
>>> index.match({"model": "iphone5s", "price": 550})
['s1']
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ray_pubsub import errors
from ray_pubsub.errors import RayPubSubError
from ray_pubsub.index.match_index import AddReport, MatchIndex
from ray_pubsub.model.match_batch import MatchBatch
from ray_pubsub.priority.rules import PriorityRules
from ray_pubsub.settings import Limits

if TYPE_CHECKING:
    from actors.starting import connect, start

__all__ = [
    "AddReport",
    "Limits",
    "MatchBatch",
    "MatchIndex",
    "PriorityRules",
    "RayPubSubError",
    "connect",
    "errors",
    "start",
]

__version__ = version("ray-pubsub")


def __getattr__(name: str) -> Any:
    """The server needs Ray, which is imported with it and not before."""
    if name in ("connect", "start"):
        from actors import starting

        return getattr(starting, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
