"""The values of records' headers: which are read, and which are invalid."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.record_headers import RecordHeaders, delivery_time, message_id
from tests.unit.record_log.batches import batch, identified, scheduled


def read(values: RecordHeaders, data: bytes, count: int) -> list[int]:
    return list(map(values.reader(count, data), DefaultRecordBatch(data)))


def test_values_of_several_batches_follow_each_other() -> None:
    values = RecordHeaders(ids=True, times=True)
    assert read(values, scheduled([5, None]), 2) == [0, 1]
    assert read(values, batch(2), 2) == [0, 1]
    assert read(values, identified(["a"]), 1) == [0]
    assert values.times == [5, 0, 0, 0, 0]
    assert values.ids == [None, None, None, None, hash(b"a")]
    assert values.used_times() == [5, 0, 0, 0, 0]
    values.clear()
    assert (values.ids, values.times) == ([], [])


def test_values_without_use_are_not_read() -> None:
    values = RecordHeaders(times=True)
    read(values, identified(["", "a"]), 2)
    assert (values.ids, values.times, values.used_times()) == (None, [0, 0], ())
    values = RecordHeaders(ids=True)
    read(values, scheduled(["bad"]), 1)
    assert (values.ids, values.times, values.used_ids()) == ([None], None, ())


@pytest.mark.parametrize("value", ["", "-1", "1.5", " 1", "0x1", "1e3", "9" * 17, b"\xb2", "tomorrow"])
def test_a_delivery_time_is_a_number_of_milliseconds(value: str | bytes) -> None:
    (record,) = DefaultRecordBatch(scheduled([value]))
    with pytest.raises(KafkaError, match=r"sharebroker\.deliver\.at of record 0") as caught:
        delivery_time(record)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_an_invalid_id_of_a_stored_record_is_none() -> None:
    (record,) = DefaultRecordBatch(identified(["x" * 129]))
    assert message_id(record) is None
