"""Binding a port."""

from __future__ import annotations

import socket

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.listener import KafkaServer


async def test_a_port_in_use_is_a_config_error() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            KafkaError, match=f"Kafka clients cannot be served on 127.0.0.1:{port}"
        ) as refused:
            KafkaServer().bind("127.0.0.1", port)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


async def test_an_unknown_host_is_a_config_error() -> None:
    with pytest.raises(KafkaError, match=r"cannot be served on no\.such\.host\.invalid:0"):
        KafkaServer().bind("no.such.host.invalid", 0)


async def test_stop_before_start_does_not_raise() -> None:
    kafka = KafkaServer()
    kafka.bind("[::1]", 0) if socket.has_ipv6 else kafka.bind("127.0.0.1", 0)
    await kafka.stop(1.0)
    kafka.close()
