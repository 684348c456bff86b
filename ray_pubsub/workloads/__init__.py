"""The papers' workloads, generated: the same numbers on every machine."""

from ray_pubsub.workloads.standard import Workload, dense, partial, sparse

__all__ = ["Workload", "dense", "partial", "sparse"]
