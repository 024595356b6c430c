"""The brokers of the upstream cluster, as forwarded requests use them.

A request is sent in the version and with the client id of the client. A connection has one forwarded request
at a time, so that no client waits for the long poll of another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from typing import Any, Final, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_client.connection import BrokerConnection
from sharebroker_server.kafka_client.core.apis import FIND_COORDINATOR, ClientApi, Versions
from sharebroker_server.kafka_wire.messages import FindCoordinatorRequest, FindCoordinatorResponse
from sharebroker_server.kafka_wire.schema import Message, api_schema

T = TypeVar("T")

GROUP: Final = 0
TRANSACTION: Final = 1
"""Kinds of coordinators, as in FindCoordinator."""

MAX_COORDINATORS: Final = 10_000
"""Coordinators that are remembered; beyond them all are looked up again."""

CONNECT_SECONDS: Final = 10.0
"""Longest wait for a connection."""

VERSIONS_SECONDS: Final = 60.0
VERSIONS_WAIT: Final = 2.0
"""Seconds for which the versions of the brokers are valid, and the longest wait for those of one."""

_NOT_CONTROLLER: Final = 41

_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors after which a coordinator is looked up again."""


class Upstream:
    """Sends requests to brokers, controller and coordinators of the cluster."""

    def __init__(self, client: ClusterClient) -> None:
        self.client = client
        self._free: dict[int, list[int]] = {}
        self._opened: dict[int, int] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._versions: dict[int, Versions] = {}
        self._asking = asyncio.Lock()
        self._asked: set[int] = set()
        self._ask_again = 0.0

    async def send(
        self, node_id: int, api_key: int, call: Call[Any], request: Message, wait: float = 0.0
    ) -> Any:
        """Returns the response of a broker. It may take `wait` seconds longer than other requests.

        Raises:
            KafkaError: NETWORK_EXCEPTION, REQUEST_TIMED_OUT, UNSUPPORTED_VERSION.
        """
        version = call.version
        api = ClientApi[Any, Any](api_key, api_schema(api_key).name, version, version)
        async with self._connection(node_id) as connection:
            response = await connection.request(api, request, REQUEST_TIMEOUT + wait, call.client_id)
            if getattr(response, "throttle_time_ms", 0):
                connection.retire()  # the broker reads nothing from it for that time; the client pauses
            return response

    async def at_any(self, api_key: int, call: Call[Any], request: Message, wait: float = 0.0) -> Any:
        """Returns the response of the first broker that can be reached. Raises KafkaError as `send`."""
        return await self._first(lambda node_id: self.send(node_id, api_key, call, request, wait))

    async def _first(self, ask: Callable[[int], Awaitable[T]]) -> T:
        """Returns the result of `ask` for the first broker that can be reached."""
        if not self.client.metadata.brokers:
            await self.client.refresh([])
        failure = KafkaError(ErrorCode.NETWORK_EXCEPTION, "The Kafka cluster has no brokers.")
        for node_id in sorted(self.client.metadata.brokers):
            try:
                return await ask(node_id)
            except KafkaError as error:
                if error.code is not ErrorCode.NETWORK_EXCEPTION:
                    raise
                failure = error
        raise failure

    async def controller(self) -> int:
        """Returns the broker that changes topics. Raises KafkaError if the cluster is not known."""
        metadata = self.client.metadata
        if metadata.controller_id not in metadata.brokers:
            metadata = await self.client.refresh([])
        return metadata.controller_id

    async def at_controller(self, api_key: int, call: Call[Any], request: Message, wait: float = 0.0) -> Any:
        """Returns the controller's response. Raises KafkaError as `send`."""
        response = await self.send(await self.controller(), api_key, call, request, wait)
        if _NOT_CONTROLLER in error_codes(response):
            await self.client.refresh([])
            response = await self.send(await self.controller(), api_key, call, request, wait)
        return response

    async def at_coordinator(
        self, kind: int, key: str, api_key: int, call: Call[Any], request: Message, wait: float = 0.0
    ) -> Any:
        """Returns the response of the coordinator of a group or a transactional id.

        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE if it cannot be reached.
        """
        try:
            node_id = await self._coordinator(kind, key)
            response = await self.send(node_id, api_key, call, request, wait)
        except KafkaError as error:
            self._coordinators.pop((kind, key), None)
            if error.code in _MOVED:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
            raise
        if not _MOVED.isdisjoint(error_codes(response)):
            self._coordinators.pop((kind, key), None)
        return response

    async def versions(self) -> Collection[Versions]:
        """Returns the versions of the brokers, of those that can be reached.

        They are looked up again after a change of the brokers, and after VERSIONS_SECONDS.

        Raises:
            KafkaError: NETWORK_EXCEPTION if no broker can be reached.
        """
        async with self._asking:
            if not self.client.metadata.brokers:
                await self.client.refresh([])
            nodes, now = set(self.client.metadata.brokers), asyncio.get_running_loop().time()
            if nodes != self._asked or not self._versions or now >= self._ask_again:
                self._asked, self._ask_again = nodes, now + VERSIONS_SECONDS
                asked = await asyncio.gather(*map(self._versions_of, nodes))
                known = dict(zip(nodes, asked, strict=True))
                self._versions = {node: found for node, found in known.items() if found is not None}
        if not self._versions:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "No broker of the Kafka cluster can be reached.")
        return self._versions.values()

    @property
    def features(self) -> Mapping[str, int]:
        """The levels of the cluster's finalized features, as of the last `versions`."""
        return next((versions.features for versions in self._versions.values()), {})

    async def _versions_of(self, node_id: int) -> Versions | None:
        try:
            async with asyncio.timeout(VERSIONS_WAIT):
                return (await self.client.connection(node_id)).versions
        except (KafkaError, TimeoutError):
            return None

    async def _coordinator(self, kind: int, key: str) -> int:
        known = self._coordinators.get((kind, key))
        if known is not None and known in self.client.metadata.brokers:
            return known
        request = FindCoordinatorRequest(key=key, key_type=kind)

        async def ask(node_id: int) -> FindCoordinatorResponse:
            return await (await self.client.connection(node_id)).request(FIND_COORDINATOR, request)

        found = await self._first(ask)
        if found.error_code:
            raise KafkaError(known_code(found.error_code), found.error_message or "")
        if found.node_id not in self.client.metadata.brokers:
            await self.client.refresh([])
        if len(self._coordinators) >= MAX_COORDINATORS:
            self._coordinators.clear()
        self._coordinators[kind, key] = found.node_id
        return found.node_id

    @asynccontextmanager
    async def _connection(self, node_id: int) -> AsyncIterator[BrokerConnection]:
        """Lends a connection to a broker that no other request uses."""
        free = self._free.setdefault(node_id, [])
        if free:
            number = heappop(free)
        else:
            number = self._opened[node_id] = self._opened.get(node_id, 0) + 1
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await self.client.connection(node_id, f"forwarded {number}")
        except TimeoutError:
            heappush(free, number)
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION, f"The broker {node_id} could not be reached."
            ) from None
        except BaseException:
            heappush(free, number)
            raise
        try:
            yield connection
        finally:
            if connection.unanswered:
                connection.close()  # its client disconnected before the response
            heappush(free, number)


def known_code(code: int) -> ErrorCode:
    """Returns an error code of the cluster; UNKNOWN_SERVER_ERROR for one that is not served here."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def error_codes(message: Any) -> set[int]:
    """Returns the error codes that a response has anywhere."""
    found: set[int] = set()
    rest = [message]
    while rest:
        one = rest.pop()
        if isinstance(one, Message):
            for name, value in vars(one).items():
                if name.endswith("error_code"):
                    found.add(value)
                elif isinstance(value, list | tuple | Message):
                    rest.append(value)
        elif isinstance(one, list | tuple):
            rest.extend(one)
    return found - {0}
