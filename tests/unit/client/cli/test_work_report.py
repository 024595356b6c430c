"""The summary of `sharebroker work`."""

from __future__ import annotations

import pytest

from sharebroker import ErrorCode, KafkaError, Record, Reject, Retry
from sharebroker.cli import work_report
from sharebroker.cli.work_report import WorkReport
from tests.unit.client.batches import acquisition
from tests.unit.client.cli.test_session import Raw


def record(offset: int) -> Record:
    return Record(Raw(offset=offset), acquisition(offset, offset))


def released(report: WorkReport, offset: int) -> None:
    failed = record(offset)
    failed.release(2)
    report.failed(failed, Retry(None, "exit code 1"))


def rejected(report: WorkReport, offset: int) -> None:
    failed = record(offset)
    failed.reject("exit code 65")
    report.failed(failed, Reject("exit code 65"))


def test_failures_are_printed_when_they_happen(capsys: pytest.CaptureFixture[str]) -> None:
    report = WorkReport()
    released(report, 4)
    rejected(report, 5)
    assert capsys.readouterr().err.splitlines() == [
        "flights, partition 0, offset 4, delivery 1: exit code 1; released, delay 2 s.",
        "flights, partition 0, offset 5, delivery 1: exit code 65; rejected.",
    ]


def test_release_without_a_delay_has_that_of_the_group(capsys: pytest.CaptureFixture[str]) -> None:
    failed = record(4)
    failed.release()
    WorkReport().failed(failed, Retry(None, "exit code 1"))
    assert "exit code 1; released, delay of the group." in capsys.readouterr().err


def test_record_that_is_accepted_later_is_finished() -> None:
    report = WorkReport()
    released(report, 4)
    assert report.incomplete
    report.accepted(record(4))
    assert not report.incomplete
    assert report.text() == "Accepted 1, released 1, rejected 0, exhausted 0, refused 0."


def test_summary_names_rejected_and_unfinished_records() -> None:
    report = WorkReport()
    for offset in (1, 2, 3, 7):
        rejected(report, offset)
    released(report, 9)
    report.unconfirmed(record(11), KafkaError(ErrorCode.INVALID_RECORD_STATE, "The lock was lost."))
    assert report.text().splitlines() == [
        "Accepted 0, released 1, rejected 4, exhausted 0, refused 1.",
        "Rejected: flights, partition 0, offsets 1-3, 7.",
        "Unfinished: flights, partition 0, offsets 9, 11.",
    ]
    document = report.document()
    assert document["unfinished_records"][0] == {"topic": "flights", "partition": 0, "offset": 9}
    assert (document["rejected"], document["rejected_records_omitted"]) == (4, 0)


def test_released_record_that_is_rejected_later_is_only_rejected() -> None:
    report = WorkReport()
    released(report, 4)
    rejected(report, 4)
    assert report.text().splitlines()[1:] == ["Rejected: flights, partition 0, offset 4."]


def test_release_at_the_delivery_limit_is_an_exhausted_record(capsys: pytest.CaptureFixture[str]) -> None:
    report = WorkReport(delivery_limit=1)
    released(report, 4)
    assert report.incomplete
    assert report.text().splitlines() == [
        "Accepted 0, released 0, rejected 0, exhausted 1, refused 0.",
        "Archived at the delivery limit: flights, partition 0, offset 4.",
    ]
    assert "exit code 1; archived at the delivery limit of 1." in capsys.readouterr().err


def test_stored_and_shown_records_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_report, "MAX_RECORDS", 5)
    monkeypatch.setattr(work_report, "MAX_SHOWN", 3)
    report = WorkReport()
    for offset in range(7):
        released(report, offset)
    assert report.text().splitlines()[1] == "Unfinished: flights, partition 0, offsets 0-2; and 4 more."
    assert report.document()["unfinished_records_omitted"] == 4
    assert len(report.document()["unfinished_records"]) == 3
    for offset in range(5):
        report.accepted(record(offset))
    assert report.incomplete, "two records were only counted"


def test_a_blameless_release_is_not_archived_at_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    report, failed = WorkReport(1), record(4)
    failed.release(0, blameless=True)
    report.failed(failed, Retry(0.0, "the worker stopped", blameless=True))
    assert "the worker stopped; released, delay 0 s." in capsys.readouterr().err
