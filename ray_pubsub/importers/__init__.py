"""Translates rules of other systems into our language: those that can be expressed, and for the others the reason why not."""

from ray_pubsub.importers.cesql import from_cesql
from ray_pubsub.importers.elasticsearch import from_elasticsearch
from ray_pubsub.importers.eventbridge import from_eventbridge
from ray_pubsub.importers.report import ImportedRule, ImportReport
from ray_pubsub.importers.sigma import from_sigma

__all__ = ["ImportReport", "ImportedRule", "from_cesql", "from_elasticsearch", "from_eventbridge", "from_sigma"]
