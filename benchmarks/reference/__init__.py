"""The systems that the papers compare themselves with, for the experiments only. Each is a segment (reference_segment.py), so that all of
them get the same clauses and events, go through the same suite of tests, and are measured in the same way as the engines:

    siena       counting (Carzaniga, Wolf: Forwarding in a Content-Based Network, SIGCOMM 2003)
    tama        counting in dyadic cells, approximate (Zhao, Wu; ICDCS 2011)
    h-tree      hashed cells of several attributes (Qian, Cao, Zhu, Li, Wang; TPDS 2014)
    be-tree     attributes and ranges in turn (Sadoghi, Jacobsen; TODS 2013)
    k-index     inverted lists by the size of conjunctions (Whang et al.; VLDB 2009)
    sf          every rule, one by one (the priority paper's brute force)
    columns     every rule, column by column: what a scan costs on today's machines
"""

from benchmarks.reference.be_tree import BeTreeSegment
from benchmarks.reference.column_scan import ColumnScanSegment
from benchmarks.reference.h_tree import HTreeSegment
from benchmarks.reference.k_index import KIndexSegment
from benchmarks.reference.reference_segment import TooLargeError
from benchmarks.reference.rule_scan import RuleScanSegment
from benchmarks.reference.siena import SienaSegment
from benchmarks.reference.tama import TamaSegment
from ray_pubsub.engines.engine_entry import EngineEntry, Number
from ray_pubsub.engines.registry import ENGINES

__all__ = ["APPROXIMATE", "REFERENCES", "TooLargeError", "register"]

REFERENCES = {
    "siena": EngineEntry(SienaSegment),
    "tama": EngineEntry(TamaSegment, options={"levels": Number(1, 20)}),
    "h-tree": EngineEntry(HTreeSegment, options={"cells": Number(1, 16), "indexed": Number(1, 8)}),
    "be-tree": EngineEntry(BeTreeSegment, options={"capacity": Number(1, 65_536)}),
    "k-index": EngineEntry(KIndexSegment),
    "sf": EngineEntry(RuleScanSegment),
    "columns": EngineEntry(ColumnScanSegment),
}
APPROXIMATE = {"tama"}
"""Those that may report what does not match; none may miss a match."""


def register() -> None:
    """Makes the references engines that a MatchIndex of this process can be asked for."""
    ENGINES.update(REFERENCES)
