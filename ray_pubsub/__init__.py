"""Content-based publish/subscribe: standing boolean queries, matched exactly against streams of events.

>>> import ray_pubsub
>>> index = ray_pubsub.MatchIndex()
>>> index.add("s1", "model = 'iphone5s' and price <= 580")
>>> index.match({"model": "iphone5s", "price": 550})
['s1']
"""

import importlib.metadata
import typing

from ray_pubsub import errors
from ray_pubsub.errors import RayPubSubError
from ray_pubsub.index.match_index import AddReport, MatchIndex
from ray_pubsub.model.match_batch import MatchBatch
from ray_pubsub.priority.rules import PriorityRules
from ray_pubsub.settings import Limits

if typing.TYPE_CHECKING:
    from actors.server import Server
    from actors.starting import connect, start

__all__ = [
    "AddReport",
    "Limits",
    "MatchBatch",
    "MatchIndex",
    "PriorityRules",
    "RayPubSubError",
    "Server",
    "connect",
    "errors",
    "start",
]

__version__ = importlib.metadata.version("ray-pubsub")


def __getattr__(name: str) -> typing.Any:
    """The server needs Ray, which is imported with it and not before."""
    if name in ("Server", "connect", "start"):
        from actors import starting

        return getattr(starting, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is public, what is not imported yet included; and the parts of the library that are."""
    own = (name for name, value in globals().items() if getattr(value, "__name__", "") == f"{__name__}.{name}")
    return sorted({*__all__, *own, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"})
