"""ShareAcknowledge, and the acknowledgements that a ShareFetch carries."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from sharebroker_protocol.clock import Deadline, now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.catalog.topics import check_group_id
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.share_sessions import SessionKey, begin_acknowledge
from sharebroker_server.gateway.core.validation import batches_refusal, check_member_id
from sharebroker_server.gateway.share.session_end import close_session
from sharebroker_server.leader_calls.values import AcknowledgeCall, AckPart, AckResult
from sharebroker_server.security.acl import AclOperation, AclResourceType, Requester, Resource
from sharebroker_server.security.authorizer import ALLOW_ALL, denial, require

T = TypeVar("T")

AckResults = Mapping[TopicIdPartition, KafkaError | None]
Acks = Mapping[TopicIdPartition, Sequence[AckBatch]]


class Caller(NamedTuple):
    """The connection of a request, and the partitions that it may name there (`serves` None: all).

    A broker that is `leaving` serves no partition, but forwards acknowledgements of records that were fetched
    from this broker; clients send them nowhere else. A `requester` needs the permission to READ each topic.
    """

    connection: str
    serves: Callable[[str, int], bool] | None = None
    leaving: bool = False
    requester: Requester | None = None

    async def while_permitted(
        self,
        gateway: Gateway,
        group_id: str,
        partitions: Sequence[TopicIdPartition],
        work: Coroutine[Any, Any, T],
    ) -> T:
        """Returns the result of work that may wait for records of the partitions.

        Raises GROUP_ or TOPIC_AUTHORIZATION_FAILED as soon as the requester loses the permission to READ.
        """
        requester = self.requester
        if requester is None or gateway.authorizer is ALLOW_ALL:
            return await work

        def check() -> None:
            group = Resource(AclResourceType.GROUP, group_id)
            require(gateway.authorizer, requester, AclOperation.READ, group)
            for topic in filter(
                None, map(gateway.catalog.topic_by_id, {part.topic_id for part in partitions})
            ):
                resource = Resource(AclResourceType.TOPIC, topic.name)
                require(gateway.authorizer, requester, AclOperation.READ, resource)

        return await gateway.rechecks.run(check, work)

    def may_read(self, gateway: Gateway, topic_ids: Iterable[str]) -> bool:
        """Returns whether the requester may READ all of these topics, as far as they exist."""
        if self.requester is None or gateway.authorizer is ALLOW_ALL:
            return True
        for topic_id in topic_ids:
            topic = gateway.catalog.topic_by_id(topic_id)
            if topic is not None and not gateway.authorizer.allows(
                self.requester, AclOperation.READ, Resource(AclResourceType.TOPIC, topic.name)
            ):
                return False
        return True

    def partition_error(self, gateway: Gateway, part: TopicIdPartition, *, forwards: bool) -> ErrorCode:
        """Returns NONE if the caller may name the partition here, else Kafka's error.

        With `forwards` another broker may serve the partition.
        """
        topic = gateway.catalog.topic_by_id(part.topic_id)
        if topic is not None and self.requester is not None and gateway.authorizer is not ALLOW_ALL:
            resource = Resource(AclResourceType.TOPIC, topic.name)
            error = denial(gateway.authorizer, self.requester, AclOperation.READ, resource)
            if error is not None:
                return error.code
        return gateway.partition_error(*part, None if forwards else self.serves)


class ShareAcknowledge(NamedTuple):
    """A ShareAcknowledge request."""

    caller: Caller
    key: SessionKey
    epoch: int
    acks: Acks
    renews: bool = False


async def share_acknowledge(gateway: Gateway, request: ShareAcknowledge, deadline: Deadline) -> AckResults:
    """Serves a ShareAcknowledge; returns the durable outcome of each partition. Raises KafkaError."""
    check_group_id(request.key.group_id)
    check_member_id(request.key.member_id)
    context = begin_acknowledge(gateway.sessions, request.key, request.epoch, now())
    call, results = checked(gateway, request.caller, request.key, request.acks, renew_allowed=request.renews)
    if call.parts:
        add_errors(results, await gateway.leaders.acknowledge(call, deadline, context.session.routes))
    if context.final:
        close_session(gateway, context.session)
    return results


def checked(
    gateway: Gateway, caller: Caller, key: SessionKey, acks: Acks, *, renew_allowed: bool
) -> tuple[AcknowledgeCall, dict[TopicIdPartition, KafkaError | None]]:
    """Returns the call for the valid partitions, and one result per partition.

    A result is the partition's error, or None, which `add_errors` may replace.
    """
    results: dict[TopicIdPartition, KafkaError | None] = {}
    parts = []
    for part, batches in acks.items():
        problem = batches_refusal(batches, renew_allowed=renew_allowed)
        if problem is not None:
            results[part] = KafkaError(ErrorCode.INVALID_REQUEST, problem)
            continue
        code = caller.partition_error(gateway, part, forwards=caller.leaving)
        results[part] = KafkaError(code) if code else None
        if batches and not code:
            parts.append(AckPart(*part, batches))
    call = AcknowledgeCall(key.group_id, key.member_id, parts, renew_allowed, key.principal)
    return call, results


def add_errors(results: dict[TopicIdPartition, KafkaError | None], outcomes: Sequence[AckResult]) -> None:
    """Adds the errors that leaders returned."""
    for topic_id, partition, code, message in outcomes:
        if code:
            results[TopicIdPartition(topic_id, partition)] = KafkaError(code, message)
