"""The servicer of ProduceService, made from the functions of `gateway.produce`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from typing_extensions import override

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceServicer
from sharebroker_server.gateway.authorization import TOPIC, Access
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.grpc.servicers import Items, Servicer, checked, rpc
from sharebroker_server.gateway.produce.append import produce, produce_stream
from sharebroker_server.gateway.produce.publish import publish
from sharebroker_server.gateway.produce.transactions import end_txn, init_producer_id
from sharebroker_server.rpc.errors import refusal
from sharebroker_server.rpc.receiving import size_of
from sharebroker_server.security.acl import CLUSTER, AclOperation, AclResourceType

_TRANSACTION: Final = AclResourceType.TRANSACTIONAL_ID

MAX_REMEMBERED_TOPICS: Final = 1_000
"""Most topics of a ProduceStream whose permission is checked again when ACLs change."""


def _topic_name(access: Access, data: pb.ProduceRequest.TopicData) -> str:
    """Returns the name of the topic; "" if there is no topic with its id."""
    topic = access.gateway.catalog.topic_by_id(data.topic_id) if data.topic_id else None
    return topic.name if topic is not None else "" if data.topic_id else data.name


def _denial(access: Access, data: pb.ProduceRequest.TopicData) -> KafkaError | None:
    return _denial_of(access, _topic_name(access, data))


def _denial_of(access: Access, name: str) -> KafkaError | None:
    if not name:
        return None
    if not access.allows(AclOperation.WRITE, TOPIC, name):
        return access.denial(AclOperation.WRITE, TOPIC, name)
    return access.creation_denial(name)


def _refused(data: pb.ProduceRequest.TopicData, error: KafkaError) -> pb.ProduceResponse.TopicResponse:
    response = pb.ProduceResponse.TopicResponse(topic_id=data.topic_id, name=data.name)
    for part in data.partition_data:
        response.partition_responses.add(index=part.index, base_offset=-1, **refusal(error))
    return response


def _check_transaction(access: Access, request: pb.ProduceRequest) -> None:
    if request.transactional_id:
        access.require(AclOperation.WRITE, _TRANSACTION, request.transactional_id)


def _check_publish(access: Access, request: pb.PublishRequest) -> None:
    access.require(AclOperation.WRITE, TOPIC, request.topic)
    error = access.creation_denial(request.topic)
    if error is not None:
        raise error


def _check_producer(access: Access, request: Any) -> None:
    """As in Kafka: a producer without transactions needs IDEMPOTENT_WRITE, or may WRITE to some topic."""
    if request.HasField("transactional_id"):
        access.require(AclOperation.WRITE, _TRANSACTION, request.transactional_id)
    elif not access.allows_any(AclOperation.WRITE, TOPIC):
        access.require(AclOperation.IDEMPOTENT_WRITE, *CLUSTER)


def _check_end_txn(access: Access, request: Any) -> None:
    access.require(AclOperation.WRITE, _TRANSACTION, request.transactional_id)


_PRODUCE: Final = Items("topic_data", "responses", pb.ProduceResponse, _denial, _refused, _check_transaction)


class _StreamRights:
    """The rights of a ProduceStream's client: checked for each request, and again when ACLs change."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._written: dict[str, None] = {}
        self._items = replace(_PRODUCE, denial=self._denial)

    async def produce(
        self, gateway: Gateway, request: pb.ProduceRequest, deadline: Deadline
    ) -> pb.ProduceResponse:
        """Appends what the client may write; raises TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
        response: pb.ProduceResponse = await self._items(produce, self._access, request, deadline)
        return response

    def check(self) -> None:
        """Raises TOPIC_AUTHORIZATION_FAILED if a topic that was written may no longer be."""
        self._access.require(AclOperation.WRITE, TOPIC, *self._written)

    def _denial(self, access: Access, data: pb.ProduceRequest.TopicData) -> KafkaError | None:
        """Returns why a topic is denied; remembers one that is not."""
        name = _topic_name(access, data)
        error = _denial_of(access, name)
        if error is None and name and name not in self._written:
            self._written[name] = None
            if len(self._written) > MAX_REMEMBERED_TOPICS:
                del self._written[next(iter(self._written))]
        return error


async def _paced(
    access: Access, requests: AsyncIterator[pb.ProduceStreamRequest]
) -> AsyncIterator[tuple[pb.ProduceStreamRequest, int]]:
    """Yields the requests with their sizes in bytes, each when the earlier ones are paid."""
    async for request in requests:
        size = size_of(request, requests)
        await access.admit_streamed(size)
        yield request, size


class ProduceServicer(Servicer, ProduceServiceServicer):
    """Translates requests to the functions of `gateway.produce`."""

    STREAMING: Final = ("ProduceStream",)

    Publish = rpc(publish, checked(_check_publish), produces=True)
    Produce = rpc(produce, _PRODUCE, produces=True)
    InitProducerId = rpc(init_producer_id, checked(_check_producer))
    EndTxn = rpc(end_txn, checked(_check_end_txn))

    @override
    def ProduceStream(
        self, request_iterator: AsyncIterator[pb.ProduceStreamRequest], context: Any
    ) -> AsyncIterator[pb.ProduceStreamResponse]:
        access = Access(self._gateway, context)
        requests = _paced(access, request_iterator)
        if access.unrestricted:
            return produce_stream(self._gateway, requests)
        rights = _StreamRights(access)
        return produce_stream(self._gateway, requests, rights.produce, rights.check)
