"""The send queue of a delivery stream."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AcquiredRange
from sharebroker_server.leader_calls.values import DeliverOutput, Problem
from sharebroker_server.share_partition_leader.config import MESSAGE_BYTES, UNSENT_ENTRIES
from sharebroker_server.share_partition_leader.partition.fetch_result import Fetched
from sharebroker_server.share_partition_leader.requests.ack_batching import AckRequest
from sharebroker_server.share_partition_leader.requests.send_queue import SendQueue

PARTITION: Any = SimpleNamespace(topic_id="t", topic="topic", partition=1)


async def test_entries_of_one_turn_leave_in_one_message() -> None:
    queue = SendQueue()
    queue.add_records(PARTITION, Fetched([AcquiredRange(0, 1, 1, 7, 0.0)], b"batch"))
    queue.add_results([AckRequest(0, 1, 1, 7, 5)], 0.0, None)
    queue.add_problem("t", 1, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved"))
    assert (queue.filled.is_set(), queue.entries) == (True, 3)
    message = queue.pop()
    assert [sent.records for sent in message.deliveries] == [b"batch"]
    assert [(result.id, result.error_code) for result in message.results] == [(5, ErrorCode.NONE)]
    assert message.problems == [Problem("t", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved")]
    assert (queue.entries, queue.pop()) == (0, DeliverOutput([], [], [], []))


async def test_rejected_acknowledgement_has_no_lock_deadline() -> None:
    queue = SendQueue()
    queue.add_results([AckRequest(0, 1, 4, 7, 5)], 12.0, KafkaError(ErrorCode.INVALID_RECORD_STATE))
    queue.add_results([AckRequest(2, 3, 4, 7, 6)], 12.0, None)
    rejected, renewed = queue.pop().results
    assert (rejected.error_code, rejected.lock_deadline) == (ErrorCode.INVALID_RECORD_STATE, 0.0)
    assert (renewed.error_code, renewed.lock_deadline) == (ErrorCode.NONE, 12.0)


async def test_message_is_full_at_its_size_limit() -> None:
    queue = SendQueue()
    queue.add_records(PARTITION, Fetched([AcquiredRange(0, 0, 1, 7, 0.0)], bytes(MESSAGE_BYTES)))
    assert queue.full
    queue.pop()
    assert not queue.full


async def test_drained_waits_while_too_many_entries_are_unsent() -> None:
    queue = SendQueue()
    await queue.drained()
    queue.add_results([AckRequest(0, 0, 1, 7, 5)] * UNSENT_ENTRIES, 0.0, None)
    blocked = asyncio.ensure_future(queue.drained())
    await asyncio.sleep(0)
    assert not blocked.done()
    queue.pop()
    await blocked
