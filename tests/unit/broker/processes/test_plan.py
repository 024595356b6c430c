"""The number of brokers of one command, and the settings of each."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.defaults import CLOSED
from sharebroker_server.broker.processes.plan import (
    LOOPBACK,
    MOST_PROCESSES,
    broker_settings,
    check_processes,
    parse_processes,
    peer_listener,
)
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.leases.identity import HIGHEST_NODE_ID
from sharebroker_server.process_cores import usable_cores
from sharebroker_server.rpc.tls import TlsFiles

CONFIG = BrokerConfig.parse(())
TLS = TlsFiles(Path("c"), Path("k"))
NAMED_TLS = TlsFiles(Path("c"), Path("k"), server_name="broker.example")


def settings_of(processes: int = 3, **fields: Any) -> ServeSettings:
    """Returns settings with a Redis, unless `fields` name another one."""
    values: dict[str, Any] = {"redis": "redis://r", "config": CONFIG, "processes": processes}
    return ServeSettings(**values | fields)


def test_processes_are_a_number_or_the_cores() -> None:
    assert [parse_processes(text) for text in ("1", "4", str(MOST_PROCESSES))] == [1, 4, MOST_PROCESSES]
    assert parse_processes("auto") == min(usable_cores(), MOST_PROCESSES)


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "two", "65", "٣", "0000000640", "1" * 5000])
def test_other_numbers_of_processes_are_rejected(text: str) -> None:
    with pytest.raises(KafkaError, match="--processes takes auto, or a number from 1 to 64; not "):
        parse_processes(text)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"grpc": "h:0", "kafka": "h:0", "metrics": "h:0"},
        {"kafka": "h:65533"},
        {"kafka": "h:65533", "processes": 1},
        {"grpc": "h:9092", "kafka": CLOSED},
        {"grpc": "h:9092", "roles": frozenset({"share-coordinator"})},
        {"grpc": "h:9095"},
        {"kafka_advertise": "h:9090"},
        {"metrics": "h:65532"},
        {"grpc": "0.0.0.0:9090", "tls": NAMED_TLS, "redis": None},
        {"grpc": "0.0.0.0:9090", "tls": TLS, "redis": None, "advertise": "broker.example:9090"},
        {"grpc": "0.0.0.0:9090", "tls": TLS, "redis": "redis://r"},
        {"grpc": "broker.example:9090", "tls": TLS},
    ],
    ids=str,
)
def test_settings_with_which_several_brokers_serve(fields: Mapping[str, Any]) -> None:
    check_processes(settings_of(**fields), "linux")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"kafka": "h:65534"}, r"--kafka needs the ports 65534 to 65536 for 3 processes\."),
        ({"kafka_advertise": "h:65535"}, r"--kafka-advertise needs the ports 65535 to 65537 for 3 proc"),
        ({"metrics": "h:65533"}, r"--metrics needs the ports 65533 to 65536 for 3 processes\."),
        ({"grpc": "h:9094"}, r"--grpc and --kafka both need the port 9094 for 3 processes\."),
        ({"metrics": "h:9089"}, r"--grpc and --metrics both need the port 9090 for 3 processes\."),
        ({"metrics": "h:9094"}, r"--kafka and --metrics both need the port 9094 for 3 processes\."),
        ({"grpc": "0.0.0.0:9090", "tls": TLS, "redis": None}, r"--processes with TLS needs --advertise: "),
    ],
)
def test_settings_that_only_one_broker_can_have(fields: Mapping[str, Any], sentence: str) -> None:
    with pytest.raises(KafkaError, match=sentence):
        check_processes(settings_of(**fields), "linux")


def test_a_shared_port_needs_linux() -> None:
    with pytest.raises(KafkaError, match="--processes needs Linux"):
        check_processes(settings_of(), "darwin")
    check_processes(settings_of(processes=1), "darwin")


def test_brokers_share_one_port_and_have_others_in_sequence() -> None:
    settings = settings_of(
        grpc="0.0.0.0:0",
        advertise="broker.example:19090",
        kafka="0.0.0.0:9092",
        kafka_advertise="broker.example:19092",
        metrics="127.0.0.1:9100",
        ready_file=Path("ready.json"),
        config=BrokerConfig.parse(["num.partitions=7"]),
    )
    first, second, third = broker_settings(settings, 9090, "unix:///r", 5)
    assert {each.grpc for each in (first, second, third)} == {"0.0.0.0:9090"}
    assert {each.advertise for each in (first, second, third)} == {"broker.example:19090"}
    assert {each.redis for each in (first, second, third)} == {"unix:///r"}
    assert {each.ready_file for each in (first, second, third)} == {None}
    assert {each.config.num_partitions for each in (first, second, third)} == {7}
    assert [each.config.node_id for each in (first, second, third)] == [5, 6, 7]
    assert (first.kafka, third.kafka) == ("0.0.0.0:9092", "0.0.0.0:9094")
    assert (first.kafka_advertise, third.kafka_advertise) == ("broker.example:19092", "broker.example:19094")
    assert (first.metrics, third.metrics) == ("127.0.0.1:9101", "127.0.0.1:9103")


def test_options_that_are_absent_or_select_free_ports_stay() -> None:
    absent = broker_settings(settings_of(kafka=CLOSED), 1, "unix:///r", 5)[2]
    assert (absent.kafka, absent.kafka_advertise, absent.metrics) == (CLOSED, None, None)
    free = broker_settings(settings_of(kafka="h:0", metrics="h:0"), 1, "unix:///r", 5)[2]
    assert (free.kafka, free.metrics) == ("h:0", "h:0")


def test_node_ids_continue_at_zero_after_the_highest() -> None:
    settings = broker_settings(settings_of(), 1, "redis://r", HIGHEST_NODE_ID - 1)
    assert [each.config.node_id for each in settings] == [HIGHEST_NODE_ID - 1, HIGHEST_NODE_ID, 0]


def test_a_memory_limit_reaches_the_brokers_only_beside_a_redis() -> None:
    (embedded, *_) = broker_settings(settings_of(redis=None, max_memory=1), 1, "unix:///r", 5)
    (beside, *_) = broker_settings(settings_of(max_memory=1), 1, "redis://r", 5)
    assert (embedded.max_memory, beside.max_memory) == (None, 1)


def test_peers_beside_an_embedded_valkey_are_on_this_machine() -> None:
    settings = settings_of(redis=None, grpc="0.0.0.0:0", advertise="broker.example:19090", tls=TLS)
    assert peer_listener(settings) == (LOOPBACK, LOOPBACK)
    (first, *_) = broker_settings(settings, 9090, "unix:///r", 5)
    assert first.tls is not None
    assert first.tls.server_name == "broker.example"


@pytest.mark.parametrize(
    ("fields", "hosts"),
    [
        ({"grpc": "10.0.0.1:1"}, ("10.0.0.1", "10.0.0.1")),
        ({"grpc": "0.0.0.0:1"}, ("0.0.0.0", socket.gethostname())),
        ({"grpc": "0.0.0.0:1", "advertise": "broker.example:2"}, ("0.0.0.0", "broker.example")),
    ],
)
def test_peers_with_a_common_redis_use_the_advertised_host(
    fields: Mapping[str, Any], hosts: tuple[str, str]
) -> None:
    assert peer_listener(settings_of(**fields)) == hosts


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tls": TLS, "grpc": "10.0.0.1:1"}, "10.0.0.1"),
        ({"tls": TLS, "grpc": "[::1]:1"}, "::1"),
        ({"tls": NAMED_TLS, "grpc": "10.0.0.1:1"}, "broker.example"),
        ({"tls": TLS, "grpc": "10.0.0.1:1", "redis": "redis://r"}, None),
    ],
)
def test_the_name_that_peers_expect_in_the_certificate(fields: Mapping[str, Any], name: str | None) -> None:
    (first, *_) = broker_settings(settings_of(**{"redis": None, **fields}), 1, "redis://r", 5)
    assert first.tls is not None
    assert first.tls.server_name == name
