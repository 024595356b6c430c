"""A share-partition's state in the log is compared with its state in memory."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.coordinator_runtime.host import shard_of
from tests.unit.share_coordinator.harness import TOPIC
from tests.unit.share_coordinator.service.process import GROUP, Process


async def test_inspection_shows_log_and_memory_side_by_side(process: Process) -> None:
    await process.initialize(0)
    await process.write((5, 9, 2, 1))
    await process.write((12, 12, 0, 2))
    shown = await process.inspect()
    shard = shard_of(f"{GROUP}:{TOPIC}:0", 50)
    assert (shown.shard, shown.stream) == (shard, f"sharebroker:{{share-coordinator:{shard}}}:log")
    assert [(r.position, r.kind, r.checkpoint_epoch, r.delta_index) for r in shown.records] == [
        (1, "checkpoint", 0, 0),
        (2, "delta", 0, 0),
        (3, "delta", 0, 1),
    ]
    assert [(b.first_offset, b.last_offset) for b in shown.folded.state_batches] == [(5, 9), (12, 12)]
    assert (shown.folded.kind, shown.folded.start_offset, shown.folded.delivery_complete_count) == (
        "checkpoint",
        0,
        1,
    )
    assert shown.consistent
    assert shown.live == shown.folded


async def test_inspection_starts_at_the_latest_checkpoint(process: Process) -> None:
    await process.initialize(0)
    await process.write((5, 9, 2, 1))
    await process.write(start=20)
    shown = await process.inspect()
    assert [(r.position, r.kind) for r in shown.records] == [(3, "checkpoint")]
    assert (shown.folded.checkpoint_epoch, shown.folded.start_offset, shown.consistent) == (1, 20, True)


async def test_inspection_of_missing_state_is_consistent(process: Process) -> None:
    shown = await process.inspect()
    assert (len(shown.records), shown.HasField("folded"), shown.consistent) == (0, False, True)
    await process.initialize(0)
    await process.write((5, 9, 2, 1))
    delete = pb.DeleteShareGroupStateRequest
    topics = [delete.TopicData(topic_id=TOPIC, partitions=[0])]
    await process.stub.DeleteShareGroupState(delete(group_id=GROUP, topics=topics))
    shown = await process.inspect()
    assert [(r.kind, r.delta_index) for r in shown.records] == [("tombstone", 0), ("tombstone", 0)]
    assert (shown.HasField("folded"), shown.consistent) == (False, True)


async def test_inspection_reports_log_and_memory_mismatch(process: Process) -> None:
    await process.initialize(0)
    await process.write((5, 9, 2, 1))
    shard = f"share-coordinator:{shard_of(f'{GROUP}:{TOPIC}:0', 50)}"
    await process.log.trim(shard, 1, 3)
    shown = await process.inspect()
    assert (len(shown.records), shown.HasField("folded"), shown.consistent) == (0, False, False)
    assert [batch.first_offset for batch in shown.live.state_batches] == [5]


async def test_inspection_reports_an_invalid_record(process: Process) -> None:
    await process.initialize(0)
    shard = f"share-coordinator:{shard_of(f'{GROUP}:{TOPIC}:0', 50)}"
    await process.log.append(shard, 1, 2, [b"\xff"])
    with pytest.raises(KafkaError) as refused:
        await process.inspect()
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


async def test_inspection_skips_records_of_other_keys() -> None:
    process = Process("share.coordinator.state.topic.num.partitions=1")
    await process.start()
    await process.initialize(0, 1, 2)
    await process.write((5, 9, 2, 1), partition=1)
    shown = await process.inspect(1)
    assert [(r.position, r.kind) for r in shown.records] == [(2, "checkpoint"), (4, "delta")]
    await process.holder.stop()


async def test_inspection_reports_an_unavailable_log(process: Process) -> None:
    await process.initialize(0)
    process.log.away = True
    with pytest.raises(KafkaError) as refused:
        await process.inspect()
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    process.log.away = False
