"""The form of acknowledgement batches: rules 1 to 6 of Kafka's request handlers."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch
from sharebroker_server.share_partition_leader.core.acknowledge import validate_batches
from tests.unit.share_partition_leader.core.support import ack, fetch, opened, picture

LEGAL = {
    "none": [],
    "one offset": [AckBatch(5, 5, (1,))],
    "offset 0": [AckBatch(0, 0, (1,))],
    "one type for all": [AckBatch(5, 9, (2,))],
    "a type for each": [AckBatch(5, 7, (0, 1, 2))],
    "bytes": [AckBatch(5, 7, b"\x00\x01\x03")],
    "one type for one offset": [AckBatch(5, 5, [3])],
    "apart": [AckBatch(5, 7, (1,)), AckBatch(9, 9, (1,))],
    "adjacent": [AckBatch(5, 7, (1,)), AckBatch(8, 9, (1,))],
    "touching in one offset": [AckBatch(5, 7, (1,)), AckBatch(7, 9, (1,))],
    "renewal": [AckBatch(5, 5, (4,))],
    "renewal among other types": [AckBatch(5, 7, (1, 4, 2))],
}

FAULTY = {
    "first after last": ([AckBatch(6, 5, (1,))], 0, "first_offset"),
    "first after last, second batch": ([AckBatch(5, 5, (1,)), AckBatch(9, 8, (1,))], 1, "first_offset"),
    "negative": ([AckBatch(-1, 5, (1,))], 0, "first_offset"),
    "overlapping by two": ([AckBatch(5, 7, (1,)), AckBatch(6, 9, (1,))], 1, "first_offset"),
    "descending": ([AckBatch(5, 7, (1,)), AckBatch(0, 2, (1,))], 1, "first_offset"),
    "no type": ([AckBatch(5, 5, ())], 0, "acknowledge_types"),
    "no type for many": ([AckBatch(5, 9, ())], 0, "acknowledge_types"),
    "too few types": ([AckBatch(5, 9, (1, 1))], 0, "acknowledge_types"),
    "too many types": ([AckBatch(5, 6, (1, 1, 1))], 0, "acknowledge_types"),
    "two types for one offset": ([AckBatch(5, 5, (1, 1))], 0, "acknowledge_types"),
    "type below 0": ([AckBatch(5, 5, (-1,))], 0, "acknowledge_types"),
    "type above 4": ([AckBatch(5, 5, (5,))], 0, "acknowledge_types"),
    "one bad type of many": ([AckBatch(5, 7, (1, 9, 1))], 0, "acknowledge_types"),
    "one negative type of many": ([AckBatch(5, 7, (1, -2, 1))], 0, "acknowledge_types"),
    "third batch": (
        [AckBatch(1, 1, (1,)), AckBatch(2, 2, (1,)), AckBatch(3, 3, (7,))],
        2,
        "acknowledge_types",
    ),
}


@pytest.mark.parametrize("batches", LEGAL.values(), ids=LEGAL)
def test_valid_batches_are_accepted(batches: list[AckBatch]) -> None:
    validate_batches(batches)


@pytest.mark.parametrize(("batches", "index", "field"), FAULTY.values(), ids=FAULTY)
def test_invalid_batches_are_rejected_with_their_index(
    batches: list[AckBatch], index: int, field: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        validate_batches(batches)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert [v.field for v in refused.value.violations] == [f"acknowledgement_batches[{index}].{field}"]
    assert refused.value.metadata["first_offset"] == str(batches[index].first)


@pytest.mark.parametrize(("batches", "index", "field"), FAULTY.values(), ids=FAULTY)
def test_invalid_batches_do_not_change_the_share_partition(
    batches: list[AckBatch], index: int, field: str
) -> None:
    share = opened()
    fetch(share, "0-9")
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("m1", batches, 0.0)
    assert refused.value.violations[0].field.endswith(f"[{index}].{field}")
    assert picture(share) == "0-9 acquired 1"
    assert ack(share, "0-9") is not None
