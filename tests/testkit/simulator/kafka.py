"""Connections of a simulated process to a Kafka cluster, with the faults of the network."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from typing_extensions import override

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_client.connection import ConnectionSettings
from sharebroker_server.kafka_client.core.apis import (
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    ClientApi,
    Request,
    Response,
    Versions,
)
from sharebroker_server.kafka_client.link import BrokerAddress, BrokerLink
from tests.testkit.kafka_partition import KafkaPartition
from tests.testkit.simulator.faults import Faults

BOOTSTRAP: Final = "kafka-0:9092,kafka-1:9092"

_SETTINGS: Final = ConnectionSettings(request_timeout=3.0, setup_timeout=3.0)
_VERSIONS: Final = Versions(
    {
        FETCH.key: (0, 12),
        LIST_OFFSETS.key: (0, 7),
        METADATA.key: (0, 9),
        OFFSET_FOR_LEADER_EPOCH.key: (0, 4),
    }
)


class SimulatedKafkaClient(ClusterClient):
    """The client of a process; `process` is its name in `faults`."""

    def __init__(self, kafka: KafkaPartition, faults: Faults, process: str) -> None:
        self._addresses_of_nodes = [
            BrokerAddress(*kafka.address(node)) for node in range(len(kafka.replicas))
        ]
        super().__init__(self._addresses_of_nodes, _SETTINGS)
        self._kafka = kafka
        self._faults = faults
        self._process = process

    @override
    def _link(self, address: BrokerAddress, purpose: str) -> BrokerLink:
        link = self._links.get((address, purpose))
        if link is None:
            node = self._addresses_of_nodes.index(address)
            made = _Connection(self._kafka, node, self._faults, (self._process, address.host))
            link = self._links[address, purpose] = cast("BrokerLink", made)
        return link


class _Connection:
    """A link and its only connection: a broker answers the requests one after the other."""

    versions: Final = _VERSIONS

    def __init__(self, kafka: KafkaPartition, node: int, faults: Faults, ends: tuple[str, str]) -> None:
        self._kafka = kafka
        self._node = node
        self._faults = faults
        self._ends = ends
        self._turn = asyncio.Lock()

    async def connection(self) -> _Connection:
        """Returns this connection."""
        return self

    def close(self) -> None:
        """A request in flight ends with its caller."""

    async def request(
        self, api: ClientApi[Request, Response], request: Request, timeout: float | None = None
    ) -> Response:
        """Returns the broker's response.

        Raises:
            KafkaError: NETWORK_EXCEPTION if it is lost or late; UNSUPPORTED_VERSION.
        """
        try:
            async with asyncio.timeout(timeout or _SETTINGS.request_timeout), self._turn:
                return cast("Response", await self._exchange(api.key, request))
        except TimeoutError:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self._ends[1]} did not respond.") from None

    async def _exchange(self, key: int, request: Any) -> Any:
        faults = self._faults
        if not faults.copies(*self._ends):
            await asyncio.sleep(faults.silence())
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"The connection to {self._ends[1]} broke.")
        await asyncio.sleep(faults.delay())
        response = await self._kafka.respond(self._node, key, request)
        await asyncio.sleep(faults.delay())
        if response is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        return response
