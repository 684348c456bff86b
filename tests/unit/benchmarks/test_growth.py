"""Fits find what is there; the model of a cluster uses the server's own placement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.growth.axes import axes_to
from benchmarks.growth.cluster_check import measure_cluster
from benchmarks.growth.cluster_model import ShardCosts, model_cluster
from benchmarks.growth.document import growth_lines, predictions
from benchmarks.growth.fitting import Fit, fit_axis, fit_power
from benchmarks.growth.messages import measure_messages
from benchmarks.growth.report import shard_plan
from benchmarks.growth.results import GrowthFile
from benchmarks.growth.shard_plan import observed, plan_shards, routes_of_texts
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import SparseTests, dense, generate_sparse


@pytest.mark.parametrize(("constant", "factor", "exponent"), [(0.5, 2e-4, 1.0), (0.0, 3e-3, 0.5), (2.0, 1e-6, 1.3)])
def test_a_power_is_found(constant: float, factor: float, exponent: float) -> None:
    sizes = [10_000, 30_000, 100_000, 300_000, 1_000_000]
    fit = fit_power(sizes, [constant + factor * size**exponent for size in sizes])
    assert fit.exponent == pytest.approx(exponent, abs=0.02)
    assert fit.error < 0.02
    assert fit.at(3_000_000) == pytest.approx(constant + factor * 3_000_000**exponent, rel=0.05)


def test_a_cost_that_falls_and_one_that_is_no_power() -> None:
    sizes = [100, 1000, 10_000, 60_000]
    falling = fit_axis("sparse-d", sizes, [5.0 / size + 0.01 for size in sizes])
    assert falling.exponent == pytest.approx(-1.0, abs=0.02) and falling.holds
    assert fit_axis("dense-n", sizes, [5.0 / size + 0.01 for size in sizes]).exponent >= 0, (
        "what is extrapolated does not fall"
    )
    jumping = fit_axis("rate", sizes, [0.02, 0.2, 0.02, 0.1])
    assert not jumping.holds and str(jumping) == "no power of n"


def test_the_largest_size_is_predicted_from_the_others() -> None:
    rows = [
        {"subscriptions": size, "batch_ms": 0.01 + size * 1e-6, "bytes": size * 100.0} for size in (1e4, 3e4, 1e5, 1e6)
    ]
    rows[-1]["batch_ms"] = 99.0  # is not looked at
    time, memory = predictions(rows)
    assert time == pytest.approx(1.01, rel=0.05) and memory == pytest.approx(1e8, rel=0.01)


def test_dense_data_is_spread_and_every_event_visits_every_shard() -> None:
    plan = shard_plan(dense(5000, events=20), 4)
    assert plan.sizes.sum() == 5000
    assert plan.fan_out == 4 and plan.imbalance < 1.2


def test_sparse_events_visit_the_shards_of_their_pivots() -> None:
    made = generate_sparse(SparseTests(5000, dimensions=2000, event_size=3, events=50))
    plan = shard_plan(made, 16)
    assert plan.fan_out < 8
    assert plan.busiest <= 1 and plan.imbalance < 1.5


def test_routes_of_texts_leave_out_what_is_no_expression() -> None:
    frequencies = observed(from_dicts([{"a": 1, "b": 2}, {"a": 3}]))
    routes = routes_of_texts(["a = 1 and b = 2", "this is (", "a > 5"], frequencies)
    assert [routes.routes[code].attributes for code in routes.code.tolist()] == [("b",), ("a",)]
    plan = plan_shards(routes, np.arange(2), [["a"], ["a", "b"]], 2, frequencies)
    assert plan.sizes.tolist() == [1, 1] and plan.fan_out == 1.5


def test_a_cluster_is_as_slow_as_its_busiest_shard() -> None:
    made = dense(4000, events=10)
    costs = ShardCosts(Fit(0.0, 1e-6, 1.0, 0.0), Fit(0.0, 100.0, 1.0, 0.0), 80.0, 1e-6)
    found = model_cluster(shard_plan(made, 4), 4_000_000, costs)
    assert found.memory_gb == pytest.approx(4e8 / 2**30)
    assert found.events_per_second == pytest.approx(1e3 / (found.largest * 1e-6))
    assert found.network_bytes == pytest.approx(4 * 80 + 4 * 12)


def test_the_shards_of_a_plan_find_all_matches_together() -> None:
    made = generate_sparse(SparseTests(3000, dimensions=100, event_size=10, events=8))
    plan = shard_plan(made, 4)
    found = measure_cluster(made, plan)
    assert found.largest == plan.sizes.max() and found.events_per_second > 0 and found.memory_gb > 0
    plan.visited[0] = frozenset()  # an event that is sent nowhere
    with pytest.raises(AssertionError, match="event 0"):
        measure_cluster(made, plan)


def test_messages_are_the_servers_own() -> None:
    one, four = (measure_messages(lambda size: dense(size, events=16), 2000, shards) for shards in (1, 4))
    assert one["matches"] == four["matches"] > 0
    assert 0 < one["request_bytes"] == four["request_bytes"] and four["reply_bytes"] > one["reply_bytes"]


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    results = GrowthFile(tmp_path / "growth.csv", "growth to 5")
    results.measured("dense-n", 10, lambda: {"subscriptions": 10, "batch_ms": 0.123456})
    again = GrowthFile(tmp_path / "growth.csv", "growth to 5")
    again.measured("dense-n", 10, lambda: {"measured": "twice"})
    assert again.of("dense-n") == [{"axis": "dense-n", "size": 10, "subscriptions": 10, "batch_ms": 0.1235}]
    assert GrowthFile(tmp_path / "growth.csv", "growth to 6").rows == []


def test_the_document_says_what_the_data_show() -> None:
    """The kept document is the one that its data give, so that no number in it is typed."""
    folder = Path(__file__).parents[3] / "docs" / "growth"
    results = GrowthFile(folder / "growth.csv", "")
    most = int(results.notes["scale"].removeprefix("growth to ").replace(",", ""))
    assert (folder / "growth.md").read_text().splitlines() == growth_lines(results, axes_to(most))
