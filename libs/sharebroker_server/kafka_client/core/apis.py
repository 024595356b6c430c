"""The APIs that the client uses, and the version of each that a broker and the client have in common.

The first versions are those of Kafka 2.4, the last ones those that add something the client needs. Metadata
before version 9 may have leader epochs from before a reassignment (Kafka: hasReliableLeaderEpochs).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from sharebroker_server.kafka_wire.schema import Message

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True)  # slots and Generic exclude each other in Python 3.11
class ClientApi(Generic[Request, Response]):
    """An API: the client uses its versions `first` to `last`.

    From the version `throttled` on, a broker that throttles the client responds at once and expects the
    client to wait (KIP-219). Before, the broker delays the response.
    """

    key: int
    name: str
    first: int
    last: int
    throttled: int | None = None


FETCH: Final = ClientApi[FetchRequest, FetchResponse](1, "Fetch", 4, 13, throttled=8)
LIST_OFFSETS: Final = ClientApi[ListOffsetsRequest, ListOffsetsResponse](2, "ListOffsets", 1, 7, throttled=3)
METADATA: Final = ClientApi[MetadataRequest, MetadataResponse](3, "Metadata", 9, 12, throttled=6)
FIND_COORDINATOR: Final = ClientApi[FindCoordinatorRequest, FindCoordinatorResponse](
    10, "FindCoordinator", 1, 3, throttled=2
)
SASL_HANDSHAKE: Final = ClientApi[SaslHandshakeRequest, SaslHandshakeResponse](17, "SaslHandshake", 1, 1)
API_VERSIONS: Final = ClientApi[ApiVersionsRequest, ApiVersionsResponse](18, "ApiVersions", 0, 3, throttled=2)
OFFSET_FOR_LEADER_EPOCH: Final = ClientApi[OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse](
    23, "OffsetForLeaderEpoch", 2, 4
)
DESCRIBE_CONFIGS: Final = ClientApi[DescribeConfigsRequest, DescribeConfigsResponse](
    32, "DescribeConfigs", 1, 4, throttled=2
)
SASL_AUTHENTICATE: Final = ClientApi[SaslAuthenticateRequest, SaslAuthenticateResponse](
    36, "SaslAuthenticate", 0, 2
)

FIRST_FETCH_WITH_SESSIONS: Final = 7
FIRST_FETCH_WITH_TOPIC_IDS: Final = 13
FIRST_LIST_OFFSETS_WITH_NEWEST: Final = 7

Range = tuple[int, int]
"""First and last version."""


class Versions:
    """The versions that a broker offers, by API key, and the levels of its finalized `features`."""

    __slots__ = ("_offered", "features")

    def __init__(self, offered: Mapping[int, Range], features: Mapping[str, int] | None = None) -> None:
        self._offered = offered
        self.features: Mapping[str, int] = features or {}

    @classmethod
    def of_response(cls, response: ApiVersionsResponse) -> Versions:
        """Returns the versions in a response to ApiVersions."""
        offered = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        return cls(offered, {one.name: one.max_version_level for one in response.finalized_features})

    def offered(self, key: int) -> Range:
        """Returns the versions of an API; (0, -1) for none."""
        return self._offered.get(key, (0, -1))

    def of(self, api: ClientApi[Any, Any]) -> int:
        """Returns the highest common version.

        Raises:
            KafkaError: UNSUPPORTED_VERSION without one.
        """
        first, last = self.offered(api.key)
        version = min(last, api.last)
        if version < max(first, api.first):
            offered = f"versions {first} to {last}" if last >= first else "no version"
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The broker offers {offered} of {api.name}; {api.first} to {api.last} are usable.",
            )
        return version


def version_to_retry(response: ApiVersionsResponse) -> int:
    """Returns the version of ApiVersions to use after UNSUPPORTED_VERSION (KIP-511).

    A broker before 2.4 does not include its versions in this response, and supports version 0.
    """
    offered: Iterable[Range] = (
        (api.min_version, api.max_version) for api in response.api_keys if api.api_key == API_VERSIONS.key
    )
    _, last = next(iter(offered), (0, 0))
    return max(min(last, API_VERSIONS.last), 0)
