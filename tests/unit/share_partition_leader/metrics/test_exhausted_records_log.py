from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from sharebroker_server.share_partition_leader.metrics import exhausted_records_log
from sharebroker_server.share_partition_leader.metrics.counters import OTHER, CounterRegistry
from sharebroker_server.share_partition_leader.metrics.exhausted_records_log import ExhaustedRecordsLogger
from tests.testkit.waiting import eventually


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
        "sharebroker verify 'night shift' orders --offsets",
        None,
    ]


async def test_reports_periodically_and_at_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhausted_records_log, "INTERVAL", 0.01)
    counters = CounterRegistry(lambda: 1)
    counts, logger = counters.get("billing", "orders", list), ExhaustedRecordsLogger(counters)
    with capture_logs() as lines:
        logger.start()
        counts.exhausted += 1
        await eventually(lambda: lines, 30)
        counts.exhausted += 2
        await logger.stop()
    assert [line["records"] for line in lines] in ([1, 2], [3])
    assert lines[0]["inspect"] == "sharebroker verify billing orders --offsets"
