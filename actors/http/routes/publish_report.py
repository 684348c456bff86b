"""The answer to a publication of one event, of which nothing is to tell but numbers. To make a dict of them and to encode it takes several
times as long as to write them into the text (`python -m benchmarks latency`)."""

from __future__ import annotations

from actors.client.publish_result import PublishResult

__all__ = ["report_of_one"]

REPORT = (
    b'{"events":1,"matches":%d,"bad_events":0,"moment":%d,"deliveries":{"delivered":%d,"duplicates":%d,"dead":%d,"dropped":%d,'
    b'"rejected":%d,"rejected_subscribers":[]}}'
)


def report_of_one(result: PublishResult) -> bytes | None:
    """Returns the document as JSON, or None if there is more to tell."""
    each = result.deliveries
    if result.errors or result.warning_count or each.rejected_subscribers or result.moment is None:
        return None
    return REPORT % (
        len(result), result.moment, each.delivered, each.duplicates, each.dead, each.dropped, each.rejected,
    )  # fmt: skip
