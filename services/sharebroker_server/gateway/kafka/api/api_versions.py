"""ApiVersions (18): the served APIs, their versions, and the features of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.features import SUPPORTED
from sharebroker_server.gateway.admin.cluster import cluster_id
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.response_cache import HEARTBEAT
from sharebroker_server.kafka_wire.messages import ApiVersionsRequest, ApiVersionsResponse

_PRODUCE: Final = 0
"""Listed from version 0: otherwise older librdkafka does not compress (KAFKA-18659).

It never sends version 0.
"""

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(call: Call[ApiVersionsRequest]) -> ApiVersionsResponse:
    """Stores the client's software name, and returns the served APIs and the finalized features.

    Raises INVALID_REQUEST, REBOOTSTRAP_REQUIRED.
    """
    if call.version >= 3:
        name, number = call.request.client_software_name, call.request.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(number):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "The name or the version of the client software is invalid."
            )
        call.client.software = f"{name} {number}"
    if call.request.cluster_id is not None:
        await _check_node(call, call.request.cluster_id, call.request.node_id)
    catalog = call.gateway.catalog
    return supported(_listed(call), catalog.features, call.version, epoch=catalog.catalog.features_epoch)


async def _check_node(call: Call, cluster: str, node_id: int) -> None:
    """Raises REBOOTSTRAP_REQUIRED if the client expects another cluster or node at this address (KIP-1242).

    The address of a broker may have passed to another one since the client received it.
    """
    if (cluster, node_id) != (await cluster_id(call.gateway, call.deadline()), call.view.local_id):
        raise KafkaError(ErrorCode.REBOOTSTRAP_REQUIRED)


def _listed(call: Call) -> list[Api]:
    apis = call.listener.enabled_apis()
    heartbeat = call.listener.apis.get(HEARTBEAT)
    if heartbeat is not None and heartbeat not in apis and call.client.is_librdkafka:
        # Without ShareGroupHeartbeat in the list librdkafka retries silently and indefinitely. If the API is
        # listed and rejects the request, librdkafka reports the error.
        apis.append(heartbeat)
    return apis


def supported(
    apis: Iterable[Api],
    features: Mapping[str, int],
    version: int,
    error: ErrorCode = ErrorCode.NONE,
    *,
    epoch: int = -1,
) -> ApiVersionsResponse:
    """Returns the response; before version 4 it omits features whose lowest level is 0 (KIP-1022).

    `epoch` is that of the levels, -1 without levels.
    """
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=api.key, min_version=first_listed(api), max_version=api.versions[1]
            )
            for api in apis
        ],
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SUPPORTED.items()
            if version >= 4 or lowest > 0
        ],
        finalized_features_epoch=epoch,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(
                name=name, min_version_level=level, max_version_level=level
            )
            for name, level in features.items()
            if level > 0
        ],
    )


def first_listed(api: Api) -> int:
    """Returns the lowest version of an API that the response lists."""
    return 0 if api.key == _PRODUCE else api.versions[0]


API = Api(18, (0, 5), handle, Refusal(ApiVersionsResponse))
