"""Which initialisations keep existing state."""

from __future__ import annotations

import pytest

from sharebroker_server.share_coordinator.core.commands import Initialize
from sharebroker_server.share_coordinator.core.records import ShareCheckpoint
from sharebroker_server.share_coordinator.core.state import ShareState
from tests.unit.share_coordinator.harness import KEY


@pytest.mark.parametrize(
    ("start_offset", "keep_existing", "since_epoch", "keeps"),
    [
        (0, False, 0, False),
        (0, True, 0, True),
        (-1, False, 0, True),
        (-1, False, 3, True),
        (-1, False, 4, False),
        (0, True, 4, False),
    ],
)
def test_state_of_a_deleted_group_never_remains(
    start_offset: int, keep_existing: bool, since_epoch: int, keeps: bool
) -> None:
    state = ShareState.of(ShareCheckpoint(KEY, 0, 3, 1, 7, 0, 5, 5, ()), 1, -1)
    command = Initialize(KEY, 5, start_offset, keep_existing, since_epoch=since_epoch)
    assert command.keeps(state) is keeps
