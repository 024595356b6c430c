"""The identity of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.node_identity import node_identity
from sharebroker_server.broker.settings import ServeSettings, parse_config


def test_node_id_overrides_the_address() -> None:
    settings = ServeSettings(redis="redis://r", config=parse_config(["node.id=7"]))
    assert node_identity(settings, "here:1").node_id == 7


def test_brokers_at_one_address_have_one_node_id() -> None:
    settings = ServeSettings(redis="redis://r", config=parse_config(()))
    assert node_identity(settings, "here:1").node_id == node_identity(settings, "here:1").node_id
    assert node_identity(settings, "here:1").node_id != node_identity(settings, "here:2").node_id


def test_the_data_folder_keeps_the_identity(tmp_path: Path) -> None:
    settings = ServeSettings(data=tmp_path, config=parse_config(()))
    first, second = node_identity(settings, "here:1"), node_identity(settings, "here:2")
    assert first.node_id == second.node_id
    assert first.incarnation < second.incarnation
    (tmp_path / "node.json").write_text("nonsense")
    with pytest.raises(KafkaError, match="holds no node identity"):
        node_identity(settings, "here:1")
