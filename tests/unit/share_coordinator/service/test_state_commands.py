"""Writes of leaders in the same process, without messages."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import RecordState, SharePartitionKey, StateBatch, StateWrite
from sharebroker_server.share_coordinator.service.state_commands import StateCommands
from tests.unit.share_coordinator.harness import TOPIC
from tests.unit.share_coordinator.service.process import GROUP, Process


def commands_of(process: Process) -> StateCommands:
    return StateCommands(
        process.host,
        process.states,
        process.leases,
        lambda topic, partition: partition < process.topics.get(topic, 0),
    )


async def test_a_leader_of_the_same_process_writes_without_messages(process: Process) -> None:
    await process.initialize(0)
    key = SharePartitionKey(GROUP, TOPIC, 0)
    change = StateWrite(1, 1, 0, 1, (StateBatch(0, 9, RecordState.ACKNOWLEDGED, 1),))
    commands = commands_of(process)
    await commands.write(key, change)
    [read] = await process.read(0)
    assert [(b.first_offset, b.last_offset, b.delivery_state) for b in read.state_batches] == [(0, 9, 2)]
    with pytest.raises(KafkaError) as refused:
        await commands.write(key, change._replace(state_epoch=0))
    assert refused.value.code is ErrorCode.FENCED_STATE_EPOCH
    with pytest.raises(KafkaError) as refused:
        await commands.write(key._replace(partition=9), change)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_leaders_of_the_same_process_write_to_a_shard_together() -> None:
    process = Process("share.coordinator.state.topic.num.partitions=1")
    await process.start()
    await process.initialize(0, 1, 2)
    epochs = [1, 0, 1]  # the second is of an earlier state
    changes = [
        (SharePartitionKey(GROUP, TOPIC, n), StateWrite(epoch, 1, 5, 0, ())) for n, epoch in enumerate(epochs)
    ]
    first, fenced, last = await commands_of(process).write_all(0, changes)
    assert (first, fenced.code, last) == (None, ErrorCode.FENCED_STATE_EPOCH, None)
    assert [part.start_offset for part in await process.read(0, 1, 2)] == [5, 0, 5]
    with pytest.raises(KafkaError) as refused:  # one partition is unknown: none of them is written
        commands_of(process).write_all(
            0, [(SharePartitionKey(GROUP, TOPIC, n), StateWrite(1, 1, 7, 0, ())) for n in (0, 9)]
        )
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [part.start_offset for part in await process.read(0)] == [5]
    await process.holder.stop()
