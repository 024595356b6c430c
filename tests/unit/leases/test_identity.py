"""A node keeps its id over restarts; each start has a higher incarnation."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.leases.identity import (
    HIGHEST_NODE_ID,
    NodeIdentity,
    at_address,
    persistent,
    temporary,
)
from sharebroker_server.leases.placement import succeeds


def test_a_restart_is_a_later_incarnation_of_the_same_node(tmp_path: Path) -> None:
    first = persistent(tmp_path / "node.json")
    second = persistent(tmp_path / "node.json")
    assert second.node_id == first.node_id
    assert succeeds(second.owner, first.owner)


def test_configured_node_id_overrides_the_stored_one(tmp_path: Path) -> None:
    assert persistent(tmp_path / "node.json", 7).node_id == 7
    assert persistent(tmp_path / "node.json").node_id == 7
    assert persistent(tmp_path / "node.json", 0).node_id == 0


def test_incarnation_increases_after_the_clock_was_set_back(tmp_path: Path) -> None:
    far = 9_999_999_999_999
    (tmp_path / "node.json").write_text(f'{{"node_id": 3, "incarnation": {far}}}')
    assert persistent(tmp_path / "node.json") == NodeIdentity(3, far + 1)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"node_id": "x", "incarnation": 1}'])
def test_identity_file_without_an_id_is_rejected(tmp_path: Path, content: str) -> None:
    (tmp_path / "node.json").write_text(content)
    with pytest.raises(ValueError, match="holds no node identity"):
        persistent(tmp_path / "node.json")


def test_temporary_nodes_are_kafka_broker_ids() -> None:
    assert 1 <= temporary().node_id <= HIGHEST_NODE_ID
    assert temporary(0).owner.startswith("0/")


def test_an_address_has_one_node_id(monkeypatch: pytest.MonkeyPatch) -> None:
    first = at_address("10.0.0.1:9090")
    monkeypatch.setattr("time.time_ns", lambda: (first.incarnation + 1) * 1_000_000)
    second = at_address("10.0.0.1:9090")
    assert second.node_id == first.node_id
    assert succeeds(second.owner, first.owner)


def test_different_addresses_have_different_node_ids() -> None:
    nodes = {at_address(f"10.0.0.{host}:{port}").node_id for host in range(9) for port in (9090, 9091)}
    assert len(nodes) == 18
    assert all(1 <= node <= HIGHEST_NODE_ID for node in nodes)
