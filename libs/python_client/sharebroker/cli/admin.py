"""Calls of the administration service, with every failure as a KafkaError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import grpc

from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.gateway.v1.admin_pb2 import MetadataRequest, MetadataResponse
from sharebroker.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker.rpc_status import from_rpc_error

DEADLINE: Final = 30.0
"""Seconds that one call may take."""


class Result(Protocol):
    """A part of an answer that says in band whether it worked."""

    @property
    def error_code(self) -> int:
        """Kafka's code; 0 is none."""

    @property
    def error_message(self) -> str:
        """What is wrong, in words."""


@contextmanager
def admin(server: str) -> Iterator[AdminServiceStub]:
    """A connection for a few calls. Raises KafkaError for whatever goes wrong within."""
    with grpc.insecure_channel(server) as channel:
        try:
            yield AdminServiceStub(channel)
        except grpc.RpcError as failure:
            raise from_rpc_error(failure) from None


def check(result: Result, what: str = "") -> None:
    """Raises KafkaError when the result is one; `what` names the thing it is about where the message does not."""
    if result.error_code:
        message = f"{what}: {result.error_message}" if what else result.error_message
        raise KafkaError(ErrorCode(result.error_code), message)


def topics(calls: AdminServiceStub, *names: str) -> list[MetadataResponse.Topic]:
    """The named topics, or all. Raises KafkaError for one that does not exist."""
    found = list(calls.Metadata(MetadataRequest(topics=names), timeout=DEADLINE).topics)
    for topic in found:
        if topic.error_code:
            raise KafkaError(ErrorCode(topic.error_code), f"There is no topic {topic.name}.")
    return found
