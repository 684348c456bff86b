"""Content-based publish/subscribe: standing boolean queries, matched exactly against streams of events.

>>> import ray_pubsub
>>> index = ray_pubsub.MatchIndex()
>>> index.add("s1", "model = 'iphone5s' and price <= 580")
>>> index.match({"model": "iphone5s", "price": 550})
['s1']
"""

import importlib
import importlib.util
import typing

from ray_pubsub import errors
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.errors import RayPubSubError, Rejection
from ray_pubsub.index.explanation import Explanation
from ray_pubsub.index.index_stats import IndexStats
from ray_pubsub.index.match_index import MatchIndex
from ray_pubsub.model.add_report import AddReport
from ray_pubsub.model.match_batch import MatchBatch
from ray_pubsub.settings import Limits
from ray_pubsub.warming.background import offer_background

if typing.TYPE_CHECKING:
    from actors.client.publish_result import PublishResult
    from actors.client.server import Server
    from actors.client.server_explanation import ServerPlan
    from actors.client.server_stats import ServerStats
    from actors.client.starting import connect, start
    from actors.mailboxes.delivery import AckReport, DeadLetter, Delivery
    from actors.mailboxes.stats import MailboxStats
    from actors.registry.columns import RebalanceReport, Rule, StoredSubscription
    from actors.server_settings import MailboxOptions, PriorityOptions
    from actors.transport.publish_reply import Delivered
    from ray_pubsub.priority.report import Measurement, PriorityBatch, PriorityExplanation
    from ray_pubsub.priority.rules import PriorityRules
    from ray_pubsub.priority.statistics import PriorityStats
    from ray_pubsub.warming.warm_up import warm_up as warm_up

__all__ = [
    "AckReport",
    "AddReport",
    "DeadLetter",
    "Delivered",
    "Delivery",
    "Explanation",
    "IndexPlan",
    "IndexStats",
    "Limits",
    "MailboxOptions",
    "MailboxStats",
    "MatchBatch",
    "MatchIndex",
    "Measurement",
    "PriorityBatch",
    "PriorityExplanation",
    "PriorityOptions",
    "PriorityRules",
    "PriorityStats",
    "PublishResult",
    "RayPubSubError",
    "RebalanceReport",
    "Rejection",
    "Rule",
    "Server",
    "ServerPlan",
    "ServerStats",
    "StoredSubscription",
    "connect",
    "errors",
    "start",
    "warm_up",
]

_LATER = {
    "Measurement": "priority.report",
    "PriorityBatch": "priority.report",
    "PriorityExplanation": "priority.report",
    "PriorityRules": "priority.rules",
    "PriorityStats": "priority.statistics",
    "warm_up": "warming.warm_up",
}
"""What a program that only matches does not need, by its module: it is imported when it is first used."""
_OF_SERVERS = {
    "AckReport": "mailboxes.delivery",
    "DeadLetter": "mailboxes.delivery",
    "Delivered": "transport.publish_reply",
    "Delivery": "mailboxes.delivery",
    "MailboxOptions": "server_settings",
    "MailboxStats": "mailboxes.stats",
    "PriorityOptions": "server_settings",
    "PublishResult": "client.publish_result",
    "RebalanceReport": "registry.columns",
    "Rule": "registry.columns",
    "Server": "client.server",
    "ServerPlan": "client.server_explanation",
    "ServerStats": "client.server_stats",
    "StoredSubscription": "registry.columns",
    "connect": "client.starting",
    "start": "client.starting",
}
"""What needs Ray, or belongs to a server, by its module in actors/."""


offer_background()


def __getattr__(name: str) -> typing.Any:
    """What belongs to a server is imported when it is first used: that imports Ray. So is what few programs use."""
    if name in _LATER:
        value = getattr(importlib.import_module(f"ray_pubsub.{_LATER[name]}"), name)
        globals()[name] = value
        return value
    if name == "__version__":
        metadata = importlib.import_module("importlib.metadata")
        return metadata.version("ray-pubsub")
    if name in _OF_SERVERS:
        try:
            return getattr(importlib.import_module(f"actors.{_OF_SERVERS[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name != "ray":
                raise
            raise errors.MissingExtraError("Ray, on which servers run,", "server") from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, whether or not they are imported yet, and the imported parts of the library. Without Ray there are no servers, and
    `help(ray_pubsub)` looks at every name that is here."""
    has_ray = importlib.util.find_spec("ray") is not None
    public = (name for name in __all__ if has_ray or name not in _OF_SERVERS)
    own = (name for name, value in globals().items() if getattr(value, "__name__", "") == f"{__name__}.{name}")
    return sorted({*public, *own, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"})
