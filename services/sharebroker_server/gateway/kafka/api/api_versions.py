"""ApiVersions (18): the table that dispatches, told to clients."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.dispatch.api_table import available, served
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.dispatch.features import SUPPORTED
from sharebroker_server.gateway.kafka.idle.share_group_heartbeat import HEARTBEAT
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(18)
_PRODUCE: Final = 0
"""Told from version 0: older librdkafka compresses nothing otherwise (KAFKA-18659). It never asks in it."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(call: Call) -> Message:
    """Which APIs are served in which versions, and the features in force."""
    if call.version >= 3:
        name, number = call.request.client_software_name, call.request.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(number):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The client's software name or version is not legal.")
        call.client.software = f"{name} {number}"
    return supported(_offered(call), call.door.features, call.version)


def _offered(call: Call) -> list[Api]:
    offered = available(call.door)
    heartbeat = served()[HEARTBEAT]
    if heartbeat not in offered and call.client.is_librdkafka:
        # It asks for ever, in silence, where ShareGroupHeartbeat is missing; refused, it gives up.
        offered.append(heartbeat)
    return offered


def supported(
    apis: Iterable[Api], features: Mapping[str, int], version: int, error: ErrorCode = ErrorCode.NONE
) -> Message:
    """The answer; before version 4 features whose lowest level is 0 are left out (KIP-1022)."""
    return _R.ApiVersionsResponse(
        error_code=error,
        api_keys=[
            _R.ApiVersion(api_key=one.key, min_version=first_told(one), max_version=one.versions[1])
            for one in apis
        ],
        supported_features=[
            _R.SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SUPPORTED.items()
            if version >= 4 or lowest > 0
        ],
        finalized_features_epoch=1,
        finalized_features=[
            _R.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in features.items()
            if level > 0
        ],
    )


def first_told(one: Api) -> int:
    """The lowest version of an API that clients are told of."""
    return 0 if one.key == _PRODUCE else one.versions[0]


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.ApiVersionsResponse(error_code=error.code)


API = Api(18, (0, 4), handle, _refuse)
