"""The comparison of servers with and without held and waiting records: its checkpoint."""

from __future__ import annotations

from sharebroker_server.share_partition_leader.core.events import LoadedState, SharePartitionSettings
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from tests.perf.window import WAITING, checkpoint


def test_the_checkpoint_has_as_many_runs_as_a_share_partition_may_have() -> None:
    most = SharePartitionSettings().max_runs
    share = SharePartition(
        SharePartitionSettings(), LoadedState(0, 1, 0, checkpoint(most, 10**15).state_batches)
    )
    assert len(share.in_flight.runs) == most
    assert share.in_flight.waiting == WAITING
