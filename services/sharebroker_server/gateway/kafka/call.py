"""What a handler receives (`Call`) and declares (`Api`), and how it refuses a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, Protocol

from typing_extensions import TypeVar

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.features import TRANSACTION
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.authorization import Rights
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.kafka.authentication import SaslSession, SaslSettings
from sharebroker_server.gateway.kafka.cluster_view import Brokers, ClusterView
from sharebroker_server.gateway.kafka.coarse_timer import CoarseTimer
from sharebroker_server.gateway.kafka.encoded_topics import EncodedTopics
from sharebroker_server.gateway.kafka.telemetry import RequestMetrics, log_of_clients
from sharebroker_server.kafka_wire.schema import Field, Message, Struct, message_class
from sharebroker_server.security.acl import Requester
from sharebroker_server.security.principal import ANONYMOUS, Principal
from sharebroker_server.telemetry.metrics import Family, gauge
from sharebroker_server.telemetry.rate_limited_log import RateLimitedLog

_EPOCH_PER_TRANSACTION: Final = 2
"""The transaction.version with which every end of a transaction raises the producer epoch (KIP-890)."""

FETCH_MEMORY: Final = 64 * 1024 * 1024
"""Bytes of records in responses under construction: each client may request 50 MB at the same time."""


T = TypeVar("T")


class Throttle(Protocol):
    """Charges requests to the quotas of their clients (see `throttling.py`)."""

    def charge(
        self, call: Call[Any], api_key: int, size: int, response: Message | None, spent: float
    ) -> float:
        """Charges a request; returns the seconds that its client must wait."""

    def timed(self, work: Coroutine[Any, Any, T], spent: list[float]) -> Awaitable[T]:
        """Returns `work` so that the seconds of each of its steps are added to `spent`."""

    def mutate(self, call: Call[Any], partitions: int, *, strict: bool) -> None:
        """Charges created or deleted partitions. Raises THROTTLING_QUOTA_EXCEEDED."""

    def connected(self, client: ClientConnection) -> bool:
        """Returns whether the address of a new connection may open one more."""


@dataclass(slots=True)
class KafkaListener:
    """The state that all connections of the Kafka listener share.

    `apis` are the served APIs by key. The fetches in flight divide FETCH_MEMORY among each other. With `sasl`
    clients must authenticate. With `--proxy` `upstream_epoch` returns the leader epoch that the upstream
    cluster has for a partition of a topic.
    """

    gateway: Gateway
    brokers: Brokers
    apis: Mapping[int, Api]
    log: RateLimitedLog = field(default_factory=log_of_clients)
    fetches_in_flight: int = 0
    metrics: RequestMetrics = field(default_factory=RequestMetrics)
    timer: CoarseTimer = field(default_factory=CoarseTimer)
    sasl: SaslSettings | None = None
    encoded_topics: EncodedTopics = field(default_factory=EncodedTopics)
    throttle: Throttle | None = None
    upstream_epoch: Callable[[str, int], int] | None = None

    def is_enabled(self, api: Api) -> bool:
        """Returns whether the feature that the API belongs to is enabled."""
        return api.feature is None or self.gateway.catalog.features.get(api.feature, 0) > 0

    def enabled_apis(self) -> list[Api]:
        """Returns the APIs that no feature disables, by key."""
        return [api for _, api in sorted(self.apis.items()) if self.is_enabled(api)]

    def families(self) -> Iterable[Family]:
        """Yields the metrics of requests (see Collector)."""
        yield from self.metrics.families()
        yield gauge(
            "sharebroker_kafka_idle_requests_waiting",
            "Requests of idle Kafka clients that wait in the response cache, nearly all of them for records.",
            [((), len(self.timer))],
        )


@dataclass(slots=True)
class ClientConnection:
    """The client of a connection. `connection` names the connection; ApiVersions sets `software`.

    `sasl` is its authentication, None if the listener requires none. `owner` is the principal of its
    certificate.
    """

    connection: str
    host: str
    software: str = ""
    throttled: float = 0.0
    sasl: SaslSession | None = None
    owner: Principal | None = None
    _rights: tuple[Principal, Rights] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def principal(self) -> Principal:
        """The authenticated user, else the owner of the certificate, else ANONYMOUS (as over gRPC)."""
        user = None if self.sasl is None else self.sasl.principal
        return user or self.owner or ANONYMOUS

    @property
    def requester(self) -> Requester:
        """The client, as the authorizer sees it."""
        return Requester(self.principal, self.host.removeprefix("/"))

    def rights(self, gateway: Gateway) -> Rights:
        """Returns what the client may do; its requests share the object until its principal changes."""
        principal = self.principal
        if self._rights is None or self._rights[0] is not principal:
            self._rights = principal, Rights(gateway, self.requester)
        return self._rights[1]

    @property
    def is_librdkafka(self) -> bool:
        """Whether the client is librdkafka or a library that wraps it."""
        return self.software.startswith(("librdkafka ", "confluent-kafka-"))


Q = TypeVar("Q", bound=Message, covariant=True, default=Message)


@dataclass(frozen=True, slots=True)
class Call(Generic[Q]):
    """One request. `view` is the cluster while the request is served.

    `queued_for` is the time in seconds that the request already waited in the response cache.
    """

    listener: KafkaListener
    client: ClientConnection
    client_id: str
    version: int
    request: Q
    view: ClusterView
    queued_for: float = 0.0

    def leader_epoch(self, topic: Topic, partition: int) -> int:
        """Returns the leader epoch of a partition that the client sees."""
        upstream_epoch = self.listener.upstream_epoch
        if upstream_epoch is None or not topic.upstream:
            return self.view.epoch
        return upstream_epoch(topic.name, partition)

    @property
    def gateway(self) -> Gateway:
        """Sessions, and the routes to the other services."""
        return self.listener.gateway

    @property
    def requester(self) -> Requester:
        """The caller, as the authorizer sees it."""
        return self.client.requester

    @property
    def rights(self) -> Rights:
        """What the client may do."""
        return self.client.rights(self.listener.gateway)

    def limit_bytes(self, requested: int) -> int:
        """Returns the bytes of records that a fetch may return, given the other fetches in flight."""
        return min(requested, FETCH_MEMORY // max(self.listener.fetches_in_flight, 1))

    def deadline(self, timeout_ms: int | None = None) -> Deadline:
        """Returns the deadline of the request: its own timeout, at most `REQUEST_TIMEOUT`.

        Clients send a timeout of 0 to skip the wait until a change is visible everywhere; the change is
        still made.
        """
        if not timeout_ms or timeout_ms < 0:
            return Deadline(REQUEST_TIMEOUT)
        return Deadline(min(timeout_ms / 1000, REQUEST_TIMEOUT))

    def mutate(self, partitions: int, *, strict_from: int) -> None:
        """Charges partitions that the request creates or deletes to its client (KIP-599).

        Versions from `strict_from` on have THROTTLING_QUOTA_EXCEEDED, which is raised for them.
        """
        if self.listener.throttle is not None:
            self.listener.throttle.mutate(self, partitions, strict=self.version >= strict_from)

    def transaction_version(self, *, implied: bool) -> int:
        """Returns the transaction.version of the request.

        `implied` states whether its API version implies level 2.
        """
        enabled = self.gateway.catalog.features.get(TRANSACTION, 0) >= _EPOCH_PER_TRANSACTION
        return _EPOCH_PER_TRANSACTION if implied and enabled else 0

    def check_transactional_id(self, transactional_id: str) -> None:
        """Raises INVALID_REQUEST for an empty id, NOT_COORDINATOR if another broker coordinates it."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The transactional id must not be empty.")
        self.view.check_coordinates(transactional_id)


@dataclass(frozen=True, slots=True)
class Coalescing:
    """Serves neighbouring requests of one connection in one step, in their order.

    `fits` returns whether its first call may be served together with its second, earlier one.
    """

    handle: Callable[[Sequence[Call[Any]]], Coroutine[Any, Any, Sequence[Message | None]]]
    fits: Callable[[Call[Any], Call[Any]], bool]


Reply = Callable[[bytearray], None]
"""Sends a response, with its length prefix."""

Dispatch = Callable[[bytes, float], None]
"""Serves a request, with its length prefix, like any other; the second argument is its time in the cache."""


class PredictedRequest(Protocol):
    """The next request of an idle client, and its response if nothing changes (see `response_cache.py`).

    It is made together with the last response. It sends the next response with a `Reply`, or has the request
    served with a `Dispatch` after a change.
    """

    @property
    def waiting(self) -> bool:
        """Whether the request has arrived and waits."""

    def accept(self, data: bytes) -> bool:
        """Accepts the bytes if they are the predicted request and nothing changed.

        Returns whether they are.
        """

    def dispatch(self) -> None:
        """Has the waiting request served, if there is one."""

    def cancel(self) -> None:
        """Ends the prediction and discards a waiting request."""


@dataclass(frozen=True, slots=True)
class Api:
    """How one API key is served, in `versions` (first and last).

    `handle` returns the response, or None to send none (Produce with acks=0). `refuse` returns the response
    to a request that failed as a whole. The wait of an API that `waits` ends when its client disconnects.
    `coalescing` replaces `handle` for APIs whose neighbouring requests are served together. `predict` returns
    the request that will follow a served one, if it can be predicted.
    """

    key: int
    versions: tuple[int, int]
    handle: Callable[[Call[Any]], Coroutine[Any, Any, Message | None]]
    refuse: Callable[[Call[Any], KafkaError], Message]
    waits: bool = False
    feature: str | None = None
    coalescing: Coalescing | None = None
    predict: Callable[[Call[Any], Any, Reply, Dispatch], PredictedRequest | None] | None = None


A = TypeVar("A", bound=Message, default=Message)

_CODES: Final = frozenset({"error_code", "partition_error_code"})

Echo = Mapping[str, str | Callable[[Any], Any]]
"""Paths of response fields, and the request fields (or functions of them) that their values come from."""


class LazyItems(Sequence[Any]):
    """A sequence of results that are made from items when they are read."""

    __slots__ = ("_items", "_make")

    def __init__(self, make: Callable[[Any], Any], items: Sequence[Any]) -> None:
        self._make = make
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        made = self._items[index]
        return [*map(self._make, made)] if isinstance(index, slice) else self._make(made)


class FeatureDisabled(KafkaError):
    """The feature of an API has level 0. As in Kafka, responses contain no error message."""

    def __init__(self, feature: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, f"{feature} is 0, which disables this API.")


class Refusal(Generic[A]):
    """Makes the response of an API to a request that failed: every error field has the error.

    `constants` are values of fields by name, at any depth.

    Some APIs have an error per item and none for the whole request. `echo` names the arrays that are built
    from arrays of the request, so that each item gets the error: {"responses": "resources"}. Nested arrays
    are named by their path: {"topics": "topics", "topics.partitions": "partitions"}. Scalar fields of an
    item are copied from the request's item by name; `echo` names the exceptions.
    """

    __slots__ = ("_constants", "_echo", "_response")

    def __init__(self, response: type[A], echo: Echo | None = None, **constants: Any) -> None:
        self._response = response
        self._echo = echo or {}
        self._constants = constants

    def __call__(self, call: Call[Any], error: KafkaError) -> A:
        """Returns the response to a request that failed as a whole.

        Its arrays are filled when they are encoded, which is done in portions.
        """
        struct = self._response.struct
        return self._fill(struct, call.request, error, "", lazily=True)  # type: ignore[return-value]

    def item(self, path: str, source: Any, error: KafkaError | None = None) -> Any:
        """Returns the result of one item in the array at `path`; `source` is the request's item."""
        struct = self._response.struct
        for name in path.split("."):
            (struct,) = (
                part.struct for part in struct.fields if part.name == name and part.struct is not None
            )
        return self._fill(struct, source, error, f"{path}.")

    def _fill(
        self, struct: Struct, source: Any, error: KafkaError | None, path: str, *, lazily: bool = False
    ) -> Message:
        """Returns the struct at `path`; `source` is the part of the request that it refers to."""
        values: dict[str, Any] = {}
        for member in struct.fields:
            if member.name in self._constants:
                values[member.name] = self._constants[member.name]
            elif member.name in _CODES or member.name == "error_message":
                if error is not None and (member.name in _CODES or not isinstance(error, FeatureDisabled)):
                    values[member.name] = error.code if member.name in _CODES else error.message
            elif (origin := self._origin(member, source, path)) is not None:
                value = origin(source) if callable(origin) else getattr(source, origin)
                if member.struct is not None:
                    fill = partial(
                        self._fill, member.struct, error=error, path=f"{path}{member.name}.", lazily=lazily
                    )
                    value = LazyItems(fill, value or ()) if lazily else [*map(fill, value or ())]
                values[member.name] = value
        return message_class(struct)(**values)

    def _origin(self, member: Field, source: Any, path: str) -> str | Callable[[Any], Any] | None:
        """Returns the request field that a response field copies."""
        copied = path and member.struct is None and hasattr(source, member.name)
        return self._echo.get(f"{path}{member.name}", member.name if copied else None)


_PRODUCE, _FETCH, _OFFSET_COMMIT, _DELETE_TOPICS, _INIT_PRODUCER_ID = 0, 1, 8, 20, 22
_ADD_PARTITIONS_TO_TXN, _ADD_OFFSETS_TO_TXN, _END_TXN, _TXN_OFFSET_COMMIT = 24, 25, 26, 28
_SHARE_GROUP_HEARTBEAT = 76
_NO_VERSION: Final = 1 << 15

_REPLACED: Final[Mapping[tuple[int, ErrorCode], tuple[int, ErrorCode]]] = {
    (_PRODUCE, ErrorCode.KAFKA_STORAGE_ERROR): (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (_PRODUCE, ErrorCode.TRANSACTION_ABORTABLE): (11, ErrorCode.INVALID_TXN_STATE),
    # librdkafka fails the records of an error that it does not expect, and takes a new epoch after it.
    (_PRODUCE, ErrorCode.THROTTLING_QUOTA_EXCEEDED): (_NO_VERSION, ErrorCode.KAFKA_STORAGE_ERROR),
    (_FETCH, ErrorCode.KAFKA_STORAGE_ERROR): (6, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    # A consumer joins again after ILLEGAL_GENERATION; GROUP_ID_NOT_FOUND ends it. Kafka has that code from
    # version 9 on, but keeps a group whose members left. Here a group without offsets ends with its members.
    (_OFFSET_COMMIT, ErrorCode.GROUP_ID_NOT_FOUND): (_NO_VERSION, ErrorCode.ILLEGAL_GENERATION),
    (_DELETE_TOPICS, ErrorCode.TOPIC_DELETION_DISABLED): (3, ErrorCode.INVALID_REQUEST),
    (_INIT_PRODUCER_ID, ErrorCode.PRODUCER_FENCED): (4, ErrorCode.INVALID_PRODUCER_EPOCH),
    (_ADD_PARTITIONS_TO_TXN, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (_ADD_OFFSETS_TO_TXN, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (_TXN_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS): (2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (_TXN_OFFSET_COMMIT, ErrorCode.GROUP_ID_NOT_FOUND): (6, ErrorCode.ILLEGAL_GENERATION),
    (_TXN_OFFSET_COMMIT, ErrorCode.TRANSACTION_ABORTABLE): (4, ErrorCode.INVALID_TXN_STATE),
    (_END_TXN, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    # Ends a Java consumer. Source: GroupCoordinatorService.handleOperationException.
    (_SHARE_GROUP_HEARTBEAT, ErrorCode.KAFKA_STORAGE_ERROR): (_NO_VERSION, ErrorCode.NOT_COORDINATOR),
}
"""The first API version that has an error code, and the code before it (Kafka: `KafkaApis` and the comments
of its messages). _NO_VERSION: no version has the error code."""


def for_version(key: int, version: int, code: ErrorCode) -> ErrorCode:
    """Returns the error code that a version of the API `key` has for an error."""
    since, before = _REPLACED.get((key, code), (0, code))
    return for_version(key, version, before) if version < since else code
