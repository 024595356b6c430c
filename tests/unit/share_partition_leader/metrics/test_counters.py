from __future__ import annotations

from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from sharebroker_server.share_partition_leader.metrics import counters as metrics_counters
from sharebroker_server.share_partition_leader.metrics.counters import (
    OTHER,
    CounterRegistry,
    ExhaustedRecordsLogger,
)
from tests.testkit.waiting import eventually


@dataclass
class Used:
    """A share-partition."""

    group_id: str
    topic: str


def none_in_use() -> list[Used]:
    return []


def test_each_group_and_topic_has_its_own_counts() -> None:
    counters = CounterRegistry(lambda: 3)
    first = counters.get("g", "a", none_in_use)
    assert counters.get("g", "a", none_in_use) is first
    assert counters.get("g", "b", none_in_use) is not first
    assert [pair for pair, _ in counters.all()] == [("g", "a"), ("g", "b"), ("other", "other")]


def test_unused_pairs_beyond_the_limit_are_merged() -> None:
    counters = CounterRegistry(lambda: 2)
    counters.get("g", "a", none_in_use).acquired = 1
    counters.get("g", "b", none_in_use).acquired = 2
    counters.get("g", "c", lambda: [Used("g", "b")]).acquired = 4
    assert {pair: counts.acquired for pair, counts in counters.all()} == {
        ("g", "b"): 2,
        ("g", "c"): 4,
        ("other", "other"): 1,
    }


def test_deleted_records_are_merged_with_their_pair() -> None:
    counters = CounterRegistry(lambda: 1)
    counters.get("g", "a", none_in_use).deleted_waiting += 3
    counters.get("g", "b", lambda: [Used("g", "a")]).deleted_waiting += 4
    assert {pair: counts.deleted_waiting for pair, counts in counters.all()} == {("g", "a"): 3, OTHER: 4}
    counters.get("g", "b", none_in_use)
    assert {pair: counts.deleted_waiting for pair, counts in counters.all()} == {("g", "b"): 0, OTHER: 7}


def test_new_pairs_beyond_the_limit_are_counted_as_other() -> None:
    counters = CounterRegistry(lambda: 1)
    counters.get("g", "a", none_in_use)
    used = [Used("g", "a")]
    assert counters.get("g", "b", lambda: used) is counters.get("g", "c", lambda: used)
    assert [pair for pair, _ in counters.all()] == [("g", "a"), ("other", "other")]


def test_a_group_named_other_is_counted_as_other() -> None:
    counters = CounterRegistry(lambda: 10)
    counters.get("other", "other", none_in_use).acquired = 1
    assert [pair for pair, _ in counters.all()] == [("other", "other")]


def reported(logger: ExhaustedRecordsLogger) -> list[tuple[str, str, int]]:
    with capture_logs() as lines:
        logger.report()
    assert all(line["log_level"] == "warning" for line in lines)
    return [(line["group"], line["topic"], line["records"]) for line in lines]


def test_each_record_is_reported_once() -> None:
    counters = CounterRegistry(lambda: 1)
    logger = ExhaustedRecordsLogger(counters)
    billing = counters.get("billing", "orders", list)
    assert reported(logger) == []
    billing.exhausted += 3
    assert reported(logger) == [("billing", "orders", 3)]
    assert reported(logger) == []
    audit = counters.get("audit", "orders", list)  # evicts the unused pair
    audit.exhausted += 1
    assert reported(logger) == [("audit", "orders", 1)]
    dict(counters.all())[OTHER].exhausted += 2
    assert reported(logger) == [(*OTHER, 2)]


def test_a_pair_counted_again_reports_only_new_records() -> None:
    counters = CounterRegistry(lambda: 1)
    logger = ExhaustedRecordsLogger(counters)
    counters.get("billing", "orders", list).exhausted += 3
    assert reported(logger) == [("billing", "orders", 3)]
    counters.get("audit", "orders", list).exhausted += 2
    counters.get("billing", "orders", list).exhausted += 1
    assert reported(logger) == [("billing", "orders", 1), (*OTHER, 2)]


def test_the_inspect_command_is_quoted_and_missing_for_other() -> None:
    counters = CounterRegistry(lambda: 1)
    counters.get("night shift", "orders", list).exhausted += 1
    dict(counters.all())[OTHER].exhausted += 1
    with capture_logs() as lines:
        ExhaustedRecordsLogger(counters).report()
    assert [line.get("inspect") for line in lines] == [
        "sharebroker groups failed 'night shift' --topic orders",
        None,
    ]


async def test_reports_periodically_and_at_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_counters, "INTERVAL", 0.01)
    counters = CounterRegistry(lambda: 1)
    counts, logger = counters.get("billing", "orders", list), ExhaustedRecordsLogger(counters)
    with capture_logs() as lines:
        logger.start()
        counts.exhausted += 1
        await eventually(lambda: lines, 30)
        counts.exhausted += 2
        await logger.stop()
    assert [line["records"] for line in lines] in ([1, 2], [3])
    assert lines[0]["inspect"] == "sharebroker groups failed billing --topic orders"
