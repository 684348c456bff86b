"""Generates the papers' workloads: the same numbers on every machine."""

from ray_pubsub.workloads.generated import Setting, generate, settings
from ray_pubsub.workloads.priority_rules import (
    LEVELS,
    RULE_ATTRIBUTES,
    RULE_STEPS,
    PriorityRuleSet,
    priority_events,
    priority_rules,
)
from ray_pubsub.workloads.ranges import Ranges, dexin, gem, generate_ranges, rein
from ray_pubsub.workloads.rule_arrays import GeneratedRules
from ray_pubsub.workloads.segments import Segments, segments
from ray_pubsub.workloads.sparse_tests import SparseTests, generate_sparse, keywords, products
from ray_pubsub.workloads.standard import Workload, dense, partial, sparse
from ray_pubsub.workloads.user_rules import CLASSES, user_rules
from ray_pubsub.workloads.written import Written, forms, prefixes, product_sets

__all__ = [
    "CLASSES",
    "LEVELS",
    "RULE_ATTRIBUTES",
    "RULE_STEPS",
    "GeneratedRules",
    "PriorityRuleSet",
    "Ranges",
    "Segments",
    "Setting",
    "SparseTests",
    "Workload",
    "Written",
    "dense",
    "dexin",
    "forms",
    "gem",
    "generate",
    "generate_ranges",
    "generate_sparse",
    "keywords",
    "partial",
    "prefixes",
    "priority_events",
    "priority_rules",
    "product_sets",
    "products",
    "rein",
    "segments",
    "settings",
    "sparse",
    "user_rules",
]
