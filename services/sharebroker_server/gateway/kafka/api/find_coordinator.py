"""FindCoordinator (10): the broker to ask about a group, a transactional id or a share-partition's state."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(10)
_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_KNOWS_SHARE: Final = 6
_SHARE_KEY: Final = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]+", re.DOTALL)
"""Group id, topic id, partition; a group id may have colons."""


async def handle(call: Call) -> Message:
    """One key in the form up to version 3, many from version 4 on."""
    call = replace(call, view=await call.door.brokers.checked())
    if call.version >= 4:
        return _R.FindCoordinatorResponse(
            coordinators=[_coordinator(call, key) for key in call.request.coordinator_keys]
        )
    found = _coordinator(call, call.request.key)
    return _R.FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator(call: Call, key: str) -> Message:
    try:
        broker = call.view.brokers[call.view.coordinator(_coordinated(call, key))]
    except KafkaError as error:
        return _R.Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
        )
    return _R.Coordinator(key=key, node_id=broker.node_id, host=broker.host, port=broker.port)


def _coordinated(call: Call, key: str) -> str:
    key_type = call.request.key_type
    shared = key_type == _SHARE and call.version >= _KNOWS_SHARE and _SHARE_KEY.fullmatch(key)
    if not shared and key_type not in (_GROUP, _TRANSACTION):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"There is no coordinator for {key!r} of type {key_type}."
        )
    return key


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.FindCoordinatorResponse(error_code=error.code, error_message=error.message)


API = Api(10, (0, 6), handle, _refuse)
