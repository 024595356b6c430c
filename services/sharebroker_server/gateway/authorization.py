"""What a caller may do, and how fast the caller of a public RPC may do it.

`security.permissions` lists what an RPC requires, `kafka/permissions.py` what a Kafka API requires.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Set
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.quotas import LONGEST_NAME, QuotaKey
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.client_quotas import QuotaClient
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.security.acl import CLUSTER, AclOperation, AclResourceType, Requester, Resource
from sharebroker_server.security.authorizer import denial
from sharebroker_server.security.user_access import audited, caller, requester

T = TypeVar("T")

_CLIENT_ID: Final = "client-id"

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP

MAX_CACHED_RIGHTS: Final = 200
"""Permissions that one connection, stream or call caches; the authorizer caches the decisions about more."""

_KIND_BITS: Final = 4

_OPERATIONS: Final[Mapping[AclResourceType, tuple[AclOperation, ...]]] = MappingProxyType(
    {
        AclResourceType.TOPIC: (
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        ),
        AclResourceType.GROUP: (
            AclOperation.READ,
            AclOperation.DELETE,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        ),
        AclResourceType.CLUSTER: (
            AclOperation.CREATE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
        ),
    }
)
"""The operations that each type of resource supports (Kafka: `AclEntry.supportedOperations`)."""


def every_operation(kind: AclResourceType) -> int:
    """Returns all operations on a resource of this type, as bits by their number."""
    return sum(1 << operation for operation in _OPERATIONS[kind])


class Rights:
    """What the authorizer permits a caller, on either listener.

    Without access control `requester` is None, and everything is permitted. With it, every caller has a
    requester. Two objects are equal if they are the rights of the same requester.

    An object lives as long as its connection, stream or call. It caches what the authorizer allowed until the
    authorizer's version changes. A denial is not cached, so that the audit log counts each.
    """

    __slots__ = ("_allowed", "_version", "gateway", "requester")

    def __init__(self, gateway: Gateway, requester: Requester | None) -> None:
        unrestricted = gateway.unrestricted
        if requester is None and not unrestricted:
            raise ValueError("access control requires a requester")
        self.gateway = gateway
        self.requester = None if unrestricted else requester
        self._allowed: set[tuple[int, str]] = set()
        self._version = gateway.authorizer.version

    @property
    def unrestricted(self) -> bool:
        """Whether there is no access control."""
        return self.requester is None

    def __eq__(self, other: object) -> bool:
        """Returns whether both are the rights of the same requester."""
        return (
            isinstance(other, Rights) and self.gateway is other.gateway and self.requester == other.requester
        )

    def __hash__(self) -> int:
        return hash(self.requester)

    def denial(self, operation: AclOperation, kind: AclResourceType, name: str) -> KafkaError | None:
        """Returns why the caller may not do the operation; None if it may."""
        if self.requester is None or self.allows(operation, kind, name):
            return None
        return denial(self.requester, operation, Resource(kind, name))

    def unnamed_denial(self, operation: AclOperation, kind: AclResourceType) -> KafkaError | None:
        """Returns the error of a request that lacks the name of a resource; None without access control."""
        return None if self.requester is None else denial(self.requester, operation, Resource(kind, ""))

    def allows(self, operation: AclOperation, kind: AclResourceType, name: str) -> bool:
        """Returns whether the caller may do the operation. The audit log does not record a denial."""
        if self.requester is None:
            return True
        authorizer, allowed = self.gateway.authorizer, self._allowed
        if self._version != authorizer.version:
            allowed.clear()
            self._version = authorizer.version
        # An enum in the key would cost a call of its hash.
        permission = operation << _KIND_BITS | kind, name
        if permission in allowed:
            return True
        if not authorizer.allows(self.requester, operation, Resource(kind, name)):
            return False
        if len(allowed) < MAX_CACHED_RIGHTS:
            allowed.add(permission)
        return True

    def operations(self, resource: Resource) -> int:
        """Returns the operations that the caller may do to a resource, as bits by their number."""
        return sum(
            1 << operation for operation in _OPERATIONS[resource.type] if self.allows(operation, *resource)
        )

    def allows_read(self, topic: str) -> bool:
        """Returns whether the caller may READ the topic. The audit log does not record a denial."""
        return self.allows(AclOperation.READ, TOPIC, topic)

    def allows_any(self, operation: AclOperation, kind: AclResourceType) -> bool:
        """Returns whether the caller may do the operation to some resource of the type."""
        if self.requester is None:
            return True
        return self.gateway.authorizer.allows_any(self.requester, operation, kind)

    def allows_on_cluster(self, operation: AclOperation) -> bool:
        """Returns whether the caller may do the operation to the cluster."""
        return self.allows(operation, *CLUSTER)

    def require(self, operation: AclOperation, kind: AclResourceType, *names: str) -> None:
        """Raises the resource type's AUTHORIZATION_FAILED error for the first resource that is denied."""
        if self.requester is None:
            return
        for name in names:
            if not self.allows(operation, kind, name):
                raise denial(self.requester, operation, Resource(kind, name))

    def require_on_cluster(self, operation: AclOperation) -> None:
        """Raises CLUSTER_AUTHORIZATION_FAILED unless the caller may do the operation to the cluster."""
        self.require(operation, *CLUSTER)

    def require_creation(self, name: str) -> None:
        """Raises TOPIC_AUTHORIZATION_FAILED unless the caller may create the topic."""
        error = self.create_denial(name)
        if error is not None:
            raise error

    def permitted(self, operation: AclOperation, kind: AclResourceType, names: Iterable[str]) -> Set[str]:
        """Returns those of the names that the caller may do the operation to.

        The audit log records the others. Kafka: `AuthHelper.filterByAuthorized`.
        """
        return {name for name in dict.fromkeys(names) if self.denial(operation, kind, name) is None}

    def require_read(self, group_id: str, topics: Iterable[str] = ()) -> None:
        """Raises GROUP_ or TOPIC_AUTHORIZATION_FAILED unless the caller may consume with the group."""
        self.require(AclOperation.READ, GROUP, group_id)
        self.require(AclOperation.READ, TOPIC, *topics)

    def run(self, check: Callable[[], None], work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Returns work that may wait so that it ends if `check` raises because permissions changed."""
        return work if self.requester is None else self.gateway.rechecks.run(check, work)

    def id_denial(self, operation: AclOperation, topic_id: str) -> KafkaError | None:
        """Returns why the caller may not do the operation to a topic.

        An unknown id is not denied: its error is UNKNOWN_TOPIC_ID.
        """
        topic = self.gateway.catalog.topic_by_id(topic_id)
        return None if topic is None else self.denial(operation, TOPIC, topic.name)

    def creation_denial(self, name: str) -> KafkaError | None:
        """Returns why the caller may not use a topic that its use would create; None if it exists.

        As in Kafka: CREATE on the cluster or on the topic.
        """
        catalog = self.gateway.catalog
        if self.requester is None or not catalog.broker.auto_create_topics_enable or catalog.topic(name):
            return None
        return self.create_denial(name)

    def create_denial(self, name: str) -> KafkaError | None:
        """Returns why the caller may not create a topic (Kafka: CREATE on the cluster or on the topic)."""
        if self.allows_on_cluster(AclOperation.CREATE):
            return None
        return self.denial(AclOperation.CREATE, TOPIC, name)


class Caller(NamedTuple):
    """The caller of ShareFetch or ShareAcknowledge, and the partitions that it may name (`serves` None: all).

    A broker that is `leaving` serves no partition, but forwards acknowledgements of records that were fetched
    from this broker; clients send them nowhere else.
    """

    connection: str
    rights: Rights
    serves: Callable[[str, int], bool] | None = None
    leaving: bool = False

    def may_read(self, topic_ids: Iterable[str]) -> bool:
        """Returns whether the caller may READ all of these topics, as far as they exist."""
        return all(map(self.rights.allows_read, self._topic_names(topic_ids)))

    def require_read(self, group_id: str, topic_ids: Iterable[str]) -> None:
        """Raises GROUP_ or TOPIC_AUTHORIZATION_FAILED unless the caller may READ the group and the topics."""
        self.rights.require_read(group_id, self._topic_names(topic_ids))

    def partition_errors(
        self, parts: Iterable[TopicIdPartition], *, forwards: bool
    ) -> dict[TopicIdPartition, ErrorCode]:
        """Returns Kafka's error of each partition that the caller may not name here.

        The permission on a topic is checked once. With `forwards` another broker may serve the partitions.
        """
        topics: dict[str, Topic | ErrorCode] = {}
        errors: dict[TopicIdPartition, ErrorCode] = {}
        for part in parts:
            topic = topics.get(part.topic_id)
            if topic is None:
                topic = topics[part.topic_id] = self._readable(part.topic_id)
            if isinstance(topic, ErrorCode):
                errors[part] = topic
            elif not 0 <= part.partition < topic.partitions:
                errors[part] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif not forwards and self.serves is not None and not self.serves(*part):
                errors[part] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return errors

    def _readable(self, topic_id: str) -> Topic | ErrorCode:
        """Returns the topic, or the error if it does not exist or the caller may not READ it."""
        topic = self.rights.gateway.catalog.topic_by_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        denied = self.rights.denial(AclOperation.READ, TOPIC, topic.name)
        return topic if denied is None else denied.code

    def _topic_names(self, topic_ids: Iterable[str]) -> Iterator[str]:
        topics = map(self.rights.gateway.catalog.topic_by_id, topic_ids)
        return (topic.name for topic in topics if topic is not None)


class Access(Rights):
    """The rights of the caller of a public RPC, and the quotas that apply to it."""

    __slots__ = ("_context",)

    def __init__(self, gateway: Gateway, context: Any) -> None:
        super().__init__(gateway, None if gateway.unrestricted else requester(context))
        self._context = context
        audited(context)

    @property
    def principal(self) -> str:
        """The principal that owns the caller's locks and sessions; "" for ANONYMOUS."""
        known = caller(self._context) if self.requester is None else self.requester.principal
        return known.owner

    @property
    def client(self) -> QuotaClient:
        """The user and the client id whose quotas apply to the caller."""
        metadata = self._context.invocation_metadata() or ()
        client_id = next((value for key, value in metadata if key == _CLIENT_ID), "")
        return QuotaClient(caller(self._context).name, client_id[:LONGEST_NAME])

    async def admit_produced(self, request: Message, deadline: Deadline) -> None:
        """Charges the bytes of a request to producer_byte_rate; waits until earlier requests are paid.

        Raises THROTTLING_QUOTA_EXCEEDED if the wait would exceed the deadline.
        """
        quotas = self.gateway.quotas
        if quotas.active:
            size = request.ByteSize()
            await quotas.admit(QuotaKey.PRODUCER_BYTE_RATE, self.client, size, deadline, held=size)

    async def admit_streamed(self, size: int) -> None:
        """Charges a message of a stream to producer_byte_rate; waits until earlier messages are paid.

        The stream is not read meanwhile, so that only this message is held.
        """
        quotas = self.gateway.quotas
        if quotas.active:
            await quotas.admit(QuotaKey.PRODUCER_BYTE_RATE, self.client, size)

    async def admit_fetch(self, deadline: Deadline) -> None:
        """Waits until the records that the caller received are paid. Raises THROTTLING_QUOTA_EXCEEDED."""
        quotas = self.gateway.quotas
        if quotas.active:
            await quotas.admit(QuotaKey.CONSUMER_BYTE_RATE, self.client, 0, deadline)

    def charge_fetched(self, size: int) -> float:
        """Charges bytes of records to consumer_byte_rate; returns the seconds until they are paid."""
        quotas = self.gateway.quotas
        return quotas.charge(QuotaKey.CONSUMER_BYTE_RATE, self.client, size) if quotas.active else 0.0

    def mutate(self, partitions: int) -> None:
        """Charges partitions that the request creates or deletes. Raises THROTTLING_QUOTA_EXCEEDED."""
        self.gateway.quotas.mutate(self.client, partitions, strict=True)

    def refund_mutation(self, charged: int, made: int) -> None:
        """Returns the charge of partitions of which only `made` were created or deleted."""
        self.gateway.quotas.refund_mutation(self.client, charged, made)

    async def wait_throttled(self, seconds: float) -> None:
        """Waits because of consumer_byte_rate."""
        await self.gateway.quotas.wait(QuotaKey.CONSUMER_BYTE_RATE, seconds)
