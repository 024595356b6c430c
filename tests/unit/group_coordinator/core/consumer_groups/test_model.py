"""Members of consumer groups."""

from __future__ import annotations

import pytest

from sharebroker_server.group_coordinator.core.consumer_groups.model import Consumer


def consumer(joining: int | None = None, syncing: int | None = None) -> Consumer:
    protocols = (("range", b"first"), ("sticky", b"second"))
    return Consumer("a", None, "c", "h", 10.0, 60.0, protocols, joining=joining, syncing=syncing)


@pytest.mark.parametrize(
    ("joining", "syncing", "waits"), [(None, None, False), (0, None, True), (None, 0, True), (1, 2, True)]
)
def test_member_waits_for_a_deferred_reply(joining: int | None, syncing: int | None, waits: bool) -> None:
    assert consumer(joining, syncing).waits is waits


@pytest.mark.parametrize(("protocol", "metadata"), [("range", b"first"), ("sticky", b"second"), ("x", b"")])
def test_metadata_belongs_to_the_assignor(protocol: str, metadata: bytes) -> None:
    assert consumer().metadata(protocol) == metadata
