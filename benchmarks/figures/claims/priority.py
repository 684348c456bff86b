"""The priority paper's figures 5 and 6 and tables 2 and 3 (its section 5)."""

from __future__ import annotations

from benchmarks.figures.claims.checks import Below, Beside, Claim, Ratio, StatedRate, Trend

__all__ = ["PRIORITY"]

SI, SF = "SI, filters", "SF"
PRECISION = 0.01
"""Milliseconds."""

PRIORITY = (
    Claim("priority-5a", "SI's time does not depend on the number of rules, SF's grows with it: two to five orders of magnitude apart.",
          (Trend(SI, "flat"), Trend(SF, "grows"), Ratio(SF, SI, 100, last=True)),
          "SF here is vectorised and stops at the first match of the highest level, so it is "
          "far faster than the paper's. The check takes the lower end, two orders."),
    Claim("priority-5b", "The same under Zipf's law.", (Trend(SI, "flat"), Trend(SF, "grows"), Ratio(SF, SI, 100, last=True)), "As 5(a)."),
    Claim("priority-table-2a", "Uniform events: the deviation of SI is near zero, at a precision of 0.01 ms.",
          (Below(SI, "std_ms", PRECISION, "0"), Trend(SI, "flat")), "See the table, in µs: the paper's clock could not show SI's times."),
    Claim("priority-table-2b", "Zipf: SF takes about half as long again, SI the same.",
          (Beside(SF, "priority-size", 1.5), Beside(SI, "priority-size", 1.0), Below(SI, "std_ms", PRECISION, "0")),
          "What Zipf changes for SF is which rule is met first, in whatever order the rules lie."),
    Claim("priority-6a", "SF gets faster the more events match, linearly; SI does not change.", (Trend(SF, "falls"), Trend(SI, "flat")),
          "An event that matches no rule is compared with all. SI looks into the filters of all levels, from the highest down, until one "
          "says yes."),
    Claim("priority-6b", "The same under Zipf's law.", (Trend(SF, "falls"), Trend(SI, "flat")), "As 6(a)."),
    Claim("priority-table-3", "False positives stay near the filter's stated rate; there are no false negatives.",
          (StatedRate(SI),),
          "The rate is stated for all filters together, for an event that matches no rule; the filters are rounded up to whole probes and "
          "blocks, so that less than the stated rate is measured. That no level is too low, and that a "
          "confirmed one is exact, is asserted in the run."),
)  # fmt: skip
