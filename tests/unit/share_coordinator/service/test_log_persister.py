"""Writes that begin together on the logs of partitions; the contract has everything else."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import StateWrite
from sharebroker_server.share_coordinator.core.commands import Initialize
from sharebroker_server.share_coordinator.service.log_persister import LogPersister
from tests.unit.share_coordinator.harness import KEY, batch
from tests.unit.share_coordinator.service.test_partition_states import Partition

ELSEWHERE = KEY._replace(partition=1)
CHANGE = StateWrite(1, 1, -1, -1, (batch(1, 1),))


async def test_writes_do_not_begin_for_partitions_that_another_process_leads() -> None:
    partition = Partition()
    await partition.open()
    persister = LogPersister(partition.states)
    assert persister.begin(1, [(ELSEWHERE, CHANGE)]) is None


async def test_a_write_for_another_leader_fails_without_the_others() -> None:
    partition = Partition()
    await partition.open()
    await partition.shard.submit(Initialize(KEY, 1, 0))
    begun = LogPersister(partition.states).begin(0, [(KEY, CHANGE), (ELSEWHERE, CHANGE)])
    assert begun is not None
    done, failed = await begun
    assert done is None
    assert isinstance(failed, KafkaError)
    assert failed.code is ErrorCode.NOT_COORDINATOR
    assert await partition.runs() == [batch(1, 1)]
