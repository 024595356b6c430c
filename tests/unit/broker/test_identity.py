"""The identity of a broker, and the host at which others reach it."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.identity import advertised, node_identity
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_peers_on_other_machines_need_a_host_name(host: str) -> None:
    shared = ServeSettings(redis="redis://r", grpc=f"{host}:0", config=BrokerConfig.parse(()))
    assert advertised(shared, 1) == f"{socket.gethostname()}:1"
    assert advertised(replace(shared, redis=None), 1) == f"{host}:1"
    assert advertised(replace(shared, grpc="10.0.0.1:0"), 1) == "10.0.0.1:1"
    assert advertised(replace(shared, advertise="broker.example:2"), 1) == "broker.example:2"


def test_node_id_overrides_the_address() -> None:
    settings = ServeSettings(redis="redis://r", config=BrokerConfig.parse(["node.id=7"]))
    assert node_identity(settings, "here:1").node_id == 7


def test_brokers_at_one_address_have_one_node_id() -> None:
    settings = ServeSettings(redis="redis://r", config=BrokerConfig.parse(()))
    assert node_identity(settings, "here:1").node_id == node_identity(settings, "here:1").node_id
    assert node_identity(settings, "here:1").node_id != node_identity(settings, "here:2").node_id


def test_identity_is_stored_in_the_data_folder(tmp_path: Path) -> None:
    settings = ServeSettings(data=tmp_path, config=BrokerConfig.parse(()))
    first, second = node_identity(settings, "here:1"), node_identity(settings, "here:2")
    assert first.node_id == second.node_id
    assert first.incarnation < second.incarnation
    (tmp_path / "node.json").write_text("nonsense")
    with pytest.raises(KafkaError, match="holds no node identity"):
        node_identity(settings, "here:1")
