"""The papers' claims, figure by figure, as checks on the measurements (checks.py); one module per paper."""

from benchmarks.figures.claims.checks import Claim
from benchmarks.figures.claims.dexin import DEXIN
from benchmarks.figures.claims.gem import GEM
from benchmarks.figures.claims.opindex import OPINDEX
from benchmarks.figures.claims.priority import PRIORITY
from benchmarks.figures.claims.rein import REIN

__all__ = ["PAPERS"]

PAPERS: dict[str, tuple[Claim, ...]] = {
    "DEXIN": DEXIN,
    "GEM": GEM,
    "REIN": REIN,
    "OpIndex": OPINDEX,
    "Priorities": PRIORITY,
}
