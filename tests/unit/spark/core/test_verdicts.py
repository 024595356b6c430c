"""The pure part of verdicts: runs of offsets, and the batch that they belong to."""

from __future__ import annotations

import pytest

from sharebroker_spark.core.offsets import PlannedBatch
from sharebroker_spark.core.verdicts import (
    BatchSpan,
    BatchToken,
    NewestBatches,
    Row,
    VerdictError,
    VerdictRange,
    check_of_batch,
    verdict_ranges,
)


def row(offset: int, verdict: str, partition: int = 0) -> Row:
    return Row("t", partition, offset, verdict)


def test_adjacent_equal_verdicts_are_merged() -> None:
    rows = [row(4, "reject"), row(1, "release"), row(0, "Release"), row(0, "reject", 1), row(2, "reject"),
            row(2, "reject"), row(3, "accept"), row(9, "accept"), row(11, "accept")]  # fmt: skip
    assert verdict_ranges(rows) == [
        VerdictRange("t", 0, 0, 1, 2),
        VerdictRange("t", 0, 2, 2, 3),
        VerdictRange("t", 0, 3, 3, 1),
        VerdictRange("t", 0, 4, 4, 3),
        VerdictRange("t", 0, 9, 9, 1),
        VerdictRange("t", 0, 11, 11, 1),
        VerdictRange("t", 1, 0, 0, 3),
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(1, "keep")], "'keep'; it must be accept, release, reject"),
        ([Row("t", 0, 1, None)], "a null"),  # type: ignore[arg-type]
        ([row(1, "accept"), row(1, "reject")], "two different verdicts for offset 1 of t-0"),
    ],
)
def test_invalid_verdict_is_rejected(rows: list[Row], message: str) -> None:
    with pytest.raises(VerdictError, match=message):
        verdict_ranges(rows)


def test_batch_column_identifies_the_batch() -> None:
    token = BatchToken("h:1", "g", "s", 7, PlannedBatch("s", 3, (), 99).name, True)
    span = BatchSpan('t"', 0, 5, 9)
    assert BatchToken.parse(token.column(span)) == (token, span)
    assert (token.name, token.number) == ("3-99", 3)
    for text in ("", "{}", "[]", '{"x": 1}', "1", '{"range": [1]}', '{"range": ["t", 0, 5, 9]}'):
        with pytest.raises(VerdictError, match="column batch"):
            BatchToken.parse(text)


def test_verdict_outside_the_batch_is_rejected() -> None:
    spans = [BatchSpan("t", 0, 5, 9), BatchSpan("t", 1, 0, 0), BatchSpan("t", 0, 20, 20)]
    check_of_batch([row(5, "accept"), row(9, "reject"), row(20, "reject"), row(0, "reject", 1)], spans)
    for wrong in (row(4, "reject"), row(10, "accept"), row(1, "reject", 1), row(5, "reject", 2)):
        with pytest.raises(
            VerdictError, match=f"offset {wrong.offset} of t-{wrong.partition} is not in the batch"
        ):
            check_of_batch([row(6, "accept"), wrong], spans)
    with pytest.raises(VerdictError, match="offset 5 of u-0"):
        check_of_batch([Row("u", 0, 5, "accept")], spans)


def test_verdict_on_an_earlier_batch_is_rejected() -> None:
    def token(number: int, session: str = "s", epoch: int = 7) -> BatchToken:
        return BatchToken("h:1", "g", session, epoch, PlannedBatch(session, number, (), 99).name, True)

    newest = NewestBatches()
    for one in (token(9), token(9), token(10), token(1, "other"), token(1, epoch=8), token(2, epoch=8)):
        newest.check(one)
    with pytest.raises(VerdictError, match="batch 1 is done, since batch 2 already has verdicts"):
        newest.check(token(1, epoch=8))
