"""FindCoordinator (10): the broker that coordinates a group, a transactional id or a share-partition."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.cluster_view import Broker
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.topics import PORTION
from sharebroker_server.kafka_wire.messages import FindCoordinatorRequest, FindCoordinatorResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_FIRST_WITH_SEVERAL: Final = 4
_FIRST_WITH_SHARE: Final = 6
_SHARE_KEY: Final = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]+", re.DOTALL)
"""Group id, topic id, partition; a group id may contain colons."""

_Coordinator = FindCoordinatorResponse.Coordinator
_broker = to_kafka(Broker, _Coordinator)
_before_several = to_kafka(_Coordinator, FindCoordinatorResponse)


async def handle(call: Call[FindCoordinatorRequest]) -> FindCoordinatorResponse:
    """Returns the coordinator of one key up to version 3, of several keys from version 4 on."""
    call = replace(call, view=await call.listener.brokers.checked())
    if call.version >= _FIRST_WITH_SEVERAL:
        found = (_coordinator(call, key) for key in call.request.coordinator_keys)
        return FindCoordinatorResponse(coordinators=await call.gateway.turns.collect(found, PORTION))
    return _before_several(_coordinator(call, call.request.key))


def _coordinator(call: Call[FindCoordinatorRequest], key: str) -> _Coordinator:
    try:
        _check(call, key)
    except KafkaError as error:
        return _Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
        )
    return _broker(call.view.brokers[call.view.coordinator(key)], key=key)


def _check(call: Call[FindCoordinatorRequest], key: str) -> None:
    key_type = call.request.key_type
    if key_type == _GROUP:
        call.rights.require(AclOperation.DESCRIBE, AclResourceType.GROUP, key)
    elif key_type == _TRANSACTION:
        call.rights.require(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, key)
    elif key_type == _SHARE and call.version >= _FIRST_WITH_SHARE:
        call.rights.require_on_cluster(AclOperation.CLUSTER_ACTION)
    shared = key_type == _SHARE and call.version >= _FIRST_WITH_SHARE and _SHARE_KEY.fullmatch(key)
    if not shared and key_type not in (_GROUP, _TRANSACTION):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"There is no coordinator for {key!r} of type {key_type}."
        )


API = Api(10, (0, 6), handle, Refusal(FindCoordinatorResponse))
