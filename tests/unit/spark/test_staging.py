"""Verdicts that a job stages, and skipped records."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from sharebroker_spark.core.offsets import Range
from sharebroker_spark.core.verdicts import BatchToken, VerdictError, VerdictRange
from sharebroker_spark.staging import LeftOut, stage, verdicts
from tests.unit.spark.fake_client import FakeClient

TOKEN = BatchToken("h:1", "g", "s", 7, "3-99", True)


def accepting() -> FakeClient:
    return FakeClient(Stage=lambda _: None)


def staged(fake: FakeClient) -> list[tuple[str, int, int, int, int]]:
    return [
        (part.range.topic, part.range.partition, part.range.first_offset, part.range.last_offset, part.type)
        for request in fake.requests
        for part in request.verdicts
    ]


def test_verdicts_are_staged_for_the_batch_of_their_session() -> None:
    fake = accepting()
    stage(fake.client, TOKEN, [VerdictRange("t", 0, 5, 9, 3), VerdictRange("t", 1, 0, 0, 2)])
    (request,) = fake.requests
    session = request.session
    assert (session.group_id, session.session_id, session.epoch, request.batch) == ("g", "s", 7, "3-99")
    assert staged(fake) == [("t", 0, 5, 9, 3), ("t", 1, 0, 0, 2)]


def test_omitted_records_are_rejected_once(caplog: pytest.LogCaptureFixture) -> None:
    fake = accepting()
    left_out = LeftOut(fake.client, TOKEN)
    left_out.stage()
    assert fake.requests == []
    for offset in range(7):
        left_out.add(Range("t", 0, offset, offset))
    with caplog.at_level(logging.WARNING):
        left_out.stage()
    left_out.stage()
    assert staged(fake) == [("t", 0, offset, offset, 3) for offset in range(7)]
    assert "rejected 7 records" in caplog.text
    assert "t-0 4" in caplog.text
    assert "t-0 5" not in caplog.text


def test_omitted_records_without_a_batch_are_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    fake = accepting()
    left_out = LeftOut(fake.client, None)
    left_out.add(Range("t", 0, 1, 1))
    with caplog.at_level(logging.WARNING):
        left_out.stage()
    assert fake.requests == []
    assert "rejected 1 records" in caplog.text


class Frame:
    """A Spark data frame of which only the column types are read."""

    def __init__(self, **types: str) -> None:
        self.schema = self
        self.fields = [_Field(name, kind) for name, kind in types.items()]


class _Field:
    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.dataType: Any = self
        self._kind = kind

    def simpleString(self) -> str:
        return self._kind


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"offset": "int"}, "column offset is int; it must be bigint"),
        ({"verdict": "array<string>"}, "column verdict is array<string>; it must be string"),
        ({"batch": "double"}, "column batch is double; .*verdicts=true"),
    ],
)
def test_columns_of_verdicts_have_fixed_types(changed: dict[str, str], message: str) -> None:
    types = {
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "verdict": "string",
        "batch": "string",
    }
    with pytest.raises(VerdictError, match=message):
        verdicts(Frame(**(types | changed)))


def test_missing_column_of_the_batch_names_the_option() -> None:
    with pytest.raises(VerdictError, match=r"column batch is missing.*option verdicts=true"):
        verdicts(Frame(topic="string", partition="int", offset="bigint", verdict="string"))
