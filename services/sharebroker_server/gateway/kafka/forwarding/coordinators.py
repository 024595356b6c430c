"""Requests of consumer groups and transactions, which the cluster's coordinators serve.

The rights on the group and on the transactional id are checked first. The partitions of a topic that the
client may not use have an error; the others are forwarded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.api import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    sync_group,
    txn_offset_commit,
)
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.forwarding.core.splitting import Shape, merge, split, without
from sharebroker_server.gateway.kafka.forwarding.upstream import GROUP, TRANSACTION, Upstream, known_code
from sharebroker_server.gateway.kafka.groups import LONGEST_REBALANCE_MS
from sharebroker_server.gateway.kafka.topics import topic_of
from sharebroker_server.kafka_wire import messages
from sharebroker_server.security.acl import AclOperation, AclResourceType

Right = tuple[AclOperation, AclResourceType, str]
"""An operation, the type of a resource, and the field of the request that names the resource."""

_HERE: Final = "here"
_THERE: Final = "there"
"""Where offsets are stored: those of a topic are in the cluster of the topic."""

_NO_GENERATION: Final = -1
_HEARTBEAT_VERSION: Final = 3
"""A version of Heartbeat that every supported broker has (Kafka 2.4)."""

_GROUP: Final[Right] = (AclOperation.READ, AclResourceType.GROUP, "group_id")
_DELETED_GROUP: Final[Right] = (AclOperation.DELETE, AclResourceType.GROUP, "group_id")
_TRANSACTION: Final[Right] = (AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, "transactional_id")


def _none(_: Any) -> float:
    return 0.0


def _rebalance(request: Any) -> float:
    milliseconds: int = max(request.rebalance_timeout_ms, request.session_timeout_ms)
    return min(milliseconds, LONGEST_REBALANCE_MS) / 1000


def _longest_rebalance(_: Any) -> float:
    return LONGEST_REBALANCE_MS / 1000


@dataclass(frozen=True, slots=True)
class KeyedApi:
    """An API whose requests one coordinator serves: that of the group or the transactional id in `key`.

    `rights` are required. `wait` returns the seconds that a response may take longer than others. With a
    `topic` the request lists topics, each of which the client must be allowed to READ; `response` and `topic`
    are the classes of the response and of a topic in it.
    """

    api: Api
    kind: int
    key: str
    rights: tuple[Right, ...]
    wait: Callable[[Any], float] = _none
    response: type[Any] | None = None
    topic: type[Any] | None = None


JOIN_GROUP: Final = KeyedApi(join_group.API, GROUP, "group_id", (_GROUP,), _rebalance)
SYNC_GROUP: Final = KeyedApi(sync_group.API, GROUP, "group_id", (_GROUP,), _longest_rebalance)
HEARTBEAT: Final = KeyedApi(heartbeat.API, GROUP, "group_id", (_GROUP,))
LEAVE_GROUP: Final = KeyedApi(leave_group.API, GROUP, "group_id", (_GROUP,))
OFFSET_COMMIT: Final = KeyedApi(
    offset_commit.API,
    GROUP,
    "group_id",
    (_GROUP,),
    response=messages.OffsetCommitResponse,
    topic=messages.OffsetCommitResponse.OffsetCommitResponseTopic,
)
OFFSET_DELETE: Final = KeyedApi(
    offset_delete.API,
    GROUP,
    "group_id",
    (_DELETED_GROUP,),
    response=messages.OffsetDeleteResponse,
    topic=messages.OffsetDeleteResponse.OffsetDeleteResponseTopic,
)
TXN_OFFSET_COMMIT: Final = KeyedApi(
    txn_offset_commit.API,
    GROUP,
    "group_id",
    (_TRANSACTION, _GROUP),
    response=messages.TxnOffsetCommitResponse,
    topic=messages.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic,
)
ADD_OFFSETS_TO_TXN: Final = KeyedApi(
    add_offsets_to_txn.API, TRANSACTION, "transactional_id", (_TRANSACTION, _GROUP)
)
END_TXN: Final = KeyedApi(end_txn.API, TRANSACTION, "transactional_id", (_TRANSACTION,))

KEYED: Final = (
    JOIN_GROUP,
    SYNC_GROUP,
    HEARTBEAT,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    TXN_OFFSET_COMMIT,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
)


async def handle_keyed(keyed: KeyedApi, upstream: Upstream, call: Call[Any]) -> Any:
    """Serves a request. Raises KafkaError without a right, or if the coordinator cannot be reached.

    Offsets of topics of this cluster are stored here.
    """
    for operation, kind, field in keyed.rights:
        call.rights.require(operation, kind, getattr(call.request, field))
    if keyed.response is None or keyed.topic is None or not call.request.topics:
        return await _forward(keyed, upstream, call, call.request)
    shape = Shape(keyed.topic)
    places = [_place(keyed, call, topic) for topic in call.request.topics]
    of_parts = [
        place for topic, place in zip(call.request.topics, places, strict=True) for _ in topic.partitions
    ]
    parts = split(shape, call.request, [place if isinstance(place, str) else "" for place in of_parts])
    responses: list[Any] = []
    if _HERE in parts:
        await _check_member(upstream, call)
        responses.append(await keyed.api.handle(replace(call, request=_of_no_member(parts[_HERE]))))
    if _THERE in parts:
        responses.append(await _forward(keyed, upstream, call, parts[_THERE]))
    failed = next((one for one in responses if getattr(one, "error_code", 0)), None)
    if failed is not None:  # a response to a whole request that failed has no topics
        return failed
    errors = {
        id(part): place
        for (_, part), place in zip(shape.parts(call.request), of_parts, strict=True)
        if isinstance(place, KafkaError)
    }
    refusal, missing = cast("Refusal[Any]", keyed.api.refuse), KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    topics = merge(
        shape,
        call.request,
        responses,
        lambda part: refusal.item("topics.partitions", part, errors.get(id(part), missing)),
    )
    throttled = max((one.throttle_time_ms for one in responses), default=0)
    return keyed.response(topics=topics, throttle_time_ms=throttled)


def _place(keyed: KeyedApi, call: Call[Any], topic: Any) -> str | KafkaError:
    """Returns where the offsets of a topic are, or why the client may not use it."""
    try:
        topic_id = getattr(topic, "topic_id", "")
        found = topic_of(call, AclOperation.READ, None if topic_id else topic.name, topic_id)
    except KafkaError as error:
        return error
    if found.upstream:
        return _THERE
    return _HERE if keyed.kind == GROUP and keyed is not TXN_OFFSET_COMMIT else _not_in_cluster()


def _not_in_cluster() -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic is not in the Kafka cluster.")


async def _check_member(upstream: Upstream, call: Call[Any]) -> None:
    """Raises the coordinator's error unless the client is a member of its group, or of none."""
    generation = getattr(call.request, "generation_id_or_member_epoch", _NO_GENERATION)
    if generation == _NO_GENERATION:
        return
    request = messages.HeartbeatRequest(
        group_id=call.request.group_id, generation_id=generation, member_id=call.request.member_id
    )
    beat = replace(call, version=_HEARTBEAT_VERSION, request=request)
    response = await upstream.at_coordinator(GROUP, request.group_id, heartbeat.API.key, beat, beat.request)
    if response.error_code not in (0, ErrorCode.REBALANCE_IN_PROGRESS):
        raise KafkaError(known_code(response.error_code))


def _of_no_member(request: Any) -> Any:
    """Returns a request that no member sends: the members of the group are in the cluster."""
    return without(request, "generation_id_or_member_epoch", "member_id", "group_instance_id")


async def _forward(keyed: KeyedApi, upstream: Upstream, call: Call[Any], request: Any) -> Any:
    key, wait = getattr(request, keyed.key), keyed.wait(request)
    return await upstream.at_coordinator(keyed.kind, key, keyed.api.key, call, request, wait)


async def handle_init_producer_id(
    upstream: Upstream, call: Call[messages.InitProducerIdRequest]
) -> messages.InitProducerIdResponse:
    """Returns a producer id of the cluster. Raises KafkaError without a right."""
    init_producer_id.authorize(call)
    key, transactional_id = init_producer_id.API.key, call.request.transactional_id
    found: messages.InitProducerIdResponse
    if transactional_id is None:
        found = await upstream.at_any(key, call, call.request)
    else:
        found = await upstream.at_coordinator(TRANSACTION, transactional_id, key, call, call.request)
    return found


async def handle_add_partitions(
    upstream: Upstream, call: Call[messages.AddPartitionsToTxnRequest]
) -> messages.AddPartitionsToTxnResponse:
    """Adds either all partitions of a transaction or none. The cluster's brokers send later versions."""
    request = call.request
    transactional_id = request.v3_and_below_transactional_id
    call.rights.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id)
    errors = {topic.name: _write_error(call, topic.name) for topic in request.v3_and_below_topics}
    if any(errors.values()):
        refusal = cast("Refusal[Any]", add_partitions_to_txn.API.refuse)
        not_added = KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED)
        path = "results_by_topic_v3_and_below"
        return messages.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                refusal.item(path, topic, errors[topic.name] or not_added)
                for topic in request.v3_and_below_topics
            ]
        )
    added: messages.AddPartitionsToTxnResponse = await upstream.at_coordinator(
        TRANSACTION, transactional_id, add_partitions_to_txn.API.key, call, request
    )
    return added


def _write_error(call: Call[Any], name: str) -> KafkaError | None:
    try:
        return None if topic_of(call, AclOperation.WRITE, name).upstream else _not_in_cluster()
    except KafkaError as error:
        return error
