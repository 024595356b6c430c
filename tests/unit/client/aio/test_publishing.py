"""The producer's background: retries, time-outs and reconnects, against a scripted gateway."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker import ErrorCode, KafkaError, ProducerConfig
from sharebroker.aio import Producer, connection
from sharebroker_protocol.records.sequences import MAX_EPOCH
from tests.testkit.waiting import eventually
from tests.unit.client.fake_gateway import FakeGateway
from tests.unit.client.producing import producing


async def test_sends_of_one_loop_iteration_are_one_request(gateway: FakeGateway) -> None:
    async with producing(gateway) as producer:
        sent = [await producer.send("flights", b"%d" % n, partition=1) for n in range(3)]
        positions = [await publication for publication in sent]
    assert [(position.partition, position.offset) for position in positions] == [(1, 0), (1, 1), (1, 2)]
    assert len(gateway.produced) == 1


async def test_absent_server_is_awaited_until_delivery_timeout() -> None:
    async with Producer("127.0.0.1:1", ProducerConfig(delivery_timeout_ms=100)) as producer:
        with pytest.raises(KafkaError) as caught:
            await producer.send("flights", b"v")
        assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_records_for_stopped_server_fail_at_delivery_timeout(
    gateway: FakeGateway,
) -> None:
    async with producing(gateway, delivery_timeout_ms=1500) as producer:
        await producer.publish("flights", b"1", partition=0)
        await gateway.stop()
        sent = [await producer.send("flights", b"2", partition=0) for _ in range(3)]
        for publication in sent:
            with pytest.raises(KafkaError) as caught:
                await publication
            assert caught.value.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION)
        await producer.flush()


async def test_unconfirmed_record_fails_at_delivery_timeout(gateway: FakeGateway) -> None:
    gateway.silent = True
    async with producing(gateway, delivery_timeout_ms=1500) as producer:
        first = await producer.send("flights", b"1", partition=0)
        await eventually(lambda: gateway.produce_requests)
        behind = await producer.send("flights", b"2", partition=0)
        for publication in (first, behind):
            with pytest.raises(KafkaError, match="within 1500 ms") as caught:
                await publication
            assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_timed_out_request_is_retried_on_another_stream(gateway: FakeGateway) -> None:
    gateway.silent = True
    async with producing(gateway, request_timeout_ms=300) as producer:
        sent = await producer.send("flights", b"1", partition=0)
        await eventually(lambda: gateway.produce_requests >= 2)
        gateway.silent = False
        assert (await sent).partition == 0


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.LEADER_NOT_AVAILABLE]
)
async def test_retriable_errors_are_retried(gateway: FakeGateway, error: ErrorCode) -> None:
    gateway.produce_errors = [error, error]
    async with producing(gateway) as producer:
        first = await producer.send("flights", b"1", partition=0)
        await eventually(lambda: len(gateway.produce_errors) < 2)
        await producer.send("flights", b"2", partition=0)
        await first
    assert gateway.stored(0) == [b"1", b"2"]


async def test_record_on_a_stream_that_ends_with_its_access_token_is_sent_again(gateway: FakeGateway) -> None:
    gateway.produce_errors = [ErrorCode.SASL_AUTHENTICATION_FAILED]
    async with producing(gateway) as producer:
        await producer.publish("flights", b"1", partition=0)
        gateway.produce_errors = [ErrorCode.SASL_AUTHENTICATION_FAILED]
        await producer.publish("flights", b"2", partition=0)
    assert gateway.stored(0) == [b"1", b"2"]


async def test_record_fails_when_authentication_is_rejected_twice(gateway: FakeGateway) -> None:
    gateway.produce_errors = [ErrorCode.SASL_AUTHENTICATION_FAILED] * 2
    async with producing(gateway) as producer:
        with pytest.raises(KafkaError) as caught:
            await producer.publish("flights", b"1", partition=0)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert gateway.produce_requests == 2


async def test_a_request_without_response_is_sent_again_unchanged(gateway: FakeGateway) -> None:
    gateway.lose_responses = 2
    async with producing(gateway) as producer:
        await producer.publish("flights", b"1", partition=0)
        await producer.publish("flights", b"2", partition=0)
    assert gateway.stored(0) == [b"1", b"1", b"1", b"2"]
    sent = [data for _, data in gateway.produced]
    assert sent[0] == sent[1] == sent[2]
    headers = [DefaultRecordBatch(data) for data in sent[2:]]
    assert [(header.producer_id, header.base_sequence) for header in headers] == [(1, 0), (1, 1)]


async def test_a_producer_without_idempotence_requests_no_id(gateway: FakeGateway) -> None:
    async with producing(gateway, enable_idempotence=False) as producer:
        await producer.publish("flights", b"1", partition=0)
    assert gateway.producer_ids == 0
    ((_, data),) = gateway.produced
    assert DefaultRecordBatch(data).producer_id == -1


async def test_a_producer_id_is_requested_until_a_coordinator_is_found(gateway: FakeGateway) -> None:
    gateway.producer_id_errors = [KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 2
    async with producing(gateway) as producer:
        for number in range(3):
            await producer.publish("flights", b"%d" % number, partition=0)
    assert gateway.producer_ids == 1
    assert gateway.stored(0) == [b"0", b"1", b"2"]


async def test_records_fail_when_no_producer_id_is_granted(gateway: FakeGateway) -> None:
    gateway.producer_id_errors = [KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    async with producing(gateway) as producer:
        with pytest.raises(KafkaError) as caught:
            await producer.publish("flights", b"1", partition=0)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await producer.publish("flights", b"2", partition=0)
    assert gateway.stored(0) == [b"2"]


async def test_a_rejected_producer_id_fails_no_request_in_flight(gateway: FakeGateway) -> None:
    gateway.first_epoch = MAX_EPOCH
    gateway.held_partitions = {0}
    async with producing(gateway) as producer:
        first = await producer.send("flights", b"1", partition=0)
        await eventually(lambda: gateway.stored(0))
        gateway.produce_errors = [ErrorCode.INVALID_RECORD]  # after it the producer needs another id
        gateway.producer_id_errors = [KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
        codes = []
        for value in (b"2", b"3"):
            with pytest.raises(KafkaError) as caught:
                await producer.publish("flights", value, partition=1)
            codes.append(caught.value.code)
        assert codes == [ErrorCode.INVALID_RECORD, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        gateway.held_partitions = set()
        await producer.publish("flights", b"4", partition=1)
        assert (await first).offset == 0
    assert (gateway.stored(0), gateway.stored(1), gateway.produce_streams) == ([b"1"], [b"4"], 1)


async def numbers_after(gateway: FakeGateway, *errors: ErrorCode) -> list[tuple[int, int]]:
    """Returns epoch and number of two requests. Between them the topic changes, and these errors follow."""
    async with producing(gateway) as producer:
        await producer.publish("flights", b"1", partition=0)
        gateway.topic_id = "second"
        gateway.produce_errors = [*errors]
        await producer.publish("flights", b"2", partition=0)
    headers = [DefaultRecordBatch(data) for _, data in gateway.produced]
    return [(header.producer_epoch, header.base_sequence) for header in headers]


@pytest.mark.parametrize(
    ("errors", "second"),
    [
        ([], (0, 1)),
        ([ErrorCode.KAFKA_STORAGE_ERROR], (1, 0)),
        ([ErrorCode.KAFKA_STORAGE_ERROR] * 3, (1, 0)),
        ([ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR], (1, 0)),
        ([ErrorCode.NOT_LEADER_OR_FOLLOWER], (0, 1)),
        # The lost request may be in the new log: its numbers remain.
        ([ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR], (0, 1)),
        ([ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR], (0, 1)),
    ],
)
async def test_a_topic_that_was_created_again_has_a_new_epoch(
    gateway: FakeGateway, errors: list[ErrorCode], second: tuple[int, int]
) -> None:
    assert await numbers_after(gateway, *errors) == [(0, 0), second]


async def test_a_failed_store_of_the_same_topic_keeps_the_numbers(gateway: FakeGateway) -> None:
    gateway.topic_id = "second"
    assert await numbers_after(gateway, ErrorCode.KAFKA_STORAGE_ERROR) == [(0, 0), (0, 1)]


async def test_a_missing_producer_id_is_logged(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "WARN_AFTER", 0.0)
    gateway.producer_id_errors = [KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 3
    async with producing(gateway) as producer:
        await producer.publish("flights", b"1", partition=0)
    assert "producer cannot get a producer id and retries" in caplog.text
    assert (gateway.stored(0), gateway.produce_streams) == ([b"1"], 1)


async def test_fatal_error_is_not_retried(gateway: FakeGateway) -> None:
    gateway.produce_errors = [ErrorCode.INVALID_RECORD]
    async with producing(gateway) as producer:
        with pytest.raises(KafkaError) as caught:
            await producer.publish("flights", b"1")
        assert caught.value.code is ErrorCode.INVALID_RECORD
        await producer.publish("flights", b"2", key=b"k")
