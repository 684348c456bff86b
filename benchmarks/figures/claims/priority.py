"""The priority paper's figures 5 and 6 and tables 2 and 3 (its section 5)."""

from __future__ import annotations

from benchmarks.figures.claims.checks import Claim, Ratio, Trend

__all__ = ["PRIORITY"]

SI, SF = "SI, filters", "SF"

PRIORITY = (
    Claim("priority-5a", "SI's time does not depend on the number of rules, SF's grows with it: two to five orders of magnitude apart.",
          (Trend(SI, "flat"), Trend(SF, "grows"), Ratio(SF, SI, 100, last=True)),
          "SF here is vectorised and stops at the first match of the highest level, so it is "
          "far faster than the paper's. The check takes the lower end, two orders."),
    Claim("priority-5b", "The same under Zipf's law.", (Trend(SI, "flat"), Trend(SF, "grows"), Ratio(SF, SI, 100, last=True)), "As 5(a)."),
    Claim("priority-table-2a", "Uniform events: the deviation of SI is near zero.", (), "See the table, in µs."),
    Claim("priority-table-2b", "Zipf: SF takes about half as long again, SI the same.", (),
          "What Zipf changes for SF is which rule is met first, in whatever order the rules lie."),
    Claim("priority-6a", "SF gets faster the more events match, linearly; SI does not change.", (Trend(SF, "falls"), Trend(SI, "flat")),
          "An event that matches no rule is compared with all. SI looks into the filters of all levels, from the highest down, until one "
          "says yes."),
    Claim("priority-6b", "The same under Zipf's law.", (Trend(SF, "falls"), Trend(SI, "flat")), "As 6(a)."),
    Claim("priority-table-3", "False positives stay near the filter's stated rate; there are no false negatives.", (),
          "The rate is stated for all filters together, for an event that matches no rule. That no level is too low, and that a "
          "confirmed one is exact, is asserted in the run."),
)  # fmt: skip
