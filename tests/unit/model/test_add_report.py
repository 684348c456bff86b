"""A report of many rejections is printed as a summary."""

from __future__ import annotations

from ray_pubsub import MatchIndex


def test_a_printed_report_shows_the_first_few() -> None:
    report = MatchIndex().add_many(range(2001), ["price <"] * 2000 + ["price < 1"])
    assert len(report.rejections) == 2000
    printed = str(report).splitlines()
    assert printed[0] == "1 added, 2,000 rejected"
    assert printed[1].startswith("#0 (0): unexpected end")
    assert printed[-1] == "… and 1,997 rejections more in .rejections"
    assert len(str(report)) < 1000
    assert repr(report) == "AddReport(1 added, 2,000 rejected)"


def test_a_report_without_rejections_is_one_line() -> None:
    assert str(MatchIndex().add_many([1], ["x = 1"])) == "1 added, 0 rejected"
