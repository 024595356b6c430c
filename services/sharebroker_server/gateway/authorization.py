"""What the caller of a public RPC may do (`security.permissions`: what an RPC requires), and how fast."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.catalog.quotas import LONGEST_NAME, QuotaKey
from sharebroker_server.gateway.client_quotas import QuotaClient
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.security.acl import CLUSTER, AclOperation, AclResourceType, Requester, Resource
from sharebroker_server.security.authorizer import ALLOW_ALL, denial
from sharebroker_server.security.principal import owner_text
from sharebroker_server.security.user_access import caller, requester

M = TypeVar("M", bound=Message)
T = TypeVar("T")

_CLIENT_ID: Final = "client-id"

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP


class Access:
    """The rights of one caller, which is `requester`.

    Without access control everything is allowed to everyone, and `requester` is None.
    """

    __slots__ = ("_context", "gateway", "requester", "unrestricted")

    def __init__(self, gateway: Gateway, context: Any) -> None:
        self.unrestricted = gateway.authorizer is ALLOW_ALL
        self.gateway = gateway
        self._context = context
        self.requester: Requester | None = None if self.unrestricted else requester(context)

    @property
    def principal(self) -> str:
        """The principal that owns the caller's locks and sessions; "" for ANONYMOUS."""
        return owner_text(caller(self._context))

    @property
    def client(self) -> QuotaClient:
        """The user and the client id whose quotas apply to the caller."""
        metadata = self._context.invocation_metadata() or ()
        client_id = next((value for key, value in metadata if key == _CLIENT_ID), "")
        return QuotaClient(caller(self._context).name, client_id[:LONGEST_NAME])

    async def admit_produced(self, request: Message, deadline: Deadline | None = None) -> None:
        """Charges the bytes of a request to producer_byte_rate; waits until earlier requests are paid.

        Raises THROTTLING_QUOTA_EXCEEDED if the wait would exceed the deadline.
        """
        quotas = self.gateway.quotas
        if quotas.active:
            await quotas.admit(QuotaKey.PRODUCER_BYTE_RATE, self.client, request.ByteSize(), deadline)

    async def paced(self, requests: AsyncIterator[M]) -> AsyncIterator[M]:
        """Yields the requests of a producer, each when the earlier ones are paid; does not read meanwhile."""
        async for request in requests:
            await self.admit_produced(request)
            yield request

    async def admit_fetch(self, deadline: Deadline) -> None:
        """Waits until the records that the caller received are paid. Raises THROTTLING_QUOTA_EXCEEDED."""
        quotas = self.gateway.quotas
        if quotas.active:
            await quotas.admit(QuotaKey.CONSUMER_BYTE_RATE, self.client, 0, deadline)

    def charge_fetched(self, size: int) -> float:
        """Charges bytes of records to consumer_byte_rate; returns the seconds until they are paid."""
        quotas = self.gateway.quotas
        return quotas.charge(QuotaKey.CONSUMER_BYTE_RATE, self.client, size) if quotas.active else 0.0

    async def wait_throttled(self, seconds: float) -> None:
        """Waits because of consumer_byte_rate."""
        await self.gateway.quotas.wait(QuotaKey.CONSUMER_BYTE_RATE, seconds)

    def denial(self, operation: AclOperation, kind: AclResourceType, name: str) -> KafkaError | None:
        """Returns why the caller may not do the operation; None if it may."""
        if self.requester is None:
            return None
        return denial(self.gateway.authorizer, self.requester, operation, Resource(kind, name))

    def allows(self, operation: AclOperation, kind: AclResourceType, name: str) -> bool:
        """Returns whether the caller may do the operation. The audit log does not record a denial."""
        if self.requester is None:
            return True
        return self.gateway.authorizer.allows(self.requester, operation, Resource(kind, name))

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
        for name in names:
            error = self.denial(operation, kind, name)
            if error is not None:
                raise error

    def require_read(self, group_id: str, topics: Iterable[str] = ()) -> None:
        """Raises GROUP_ or TOPIC_AUTHORIZATION_FAILED unless the caller may consume with the group."""
        self.require(AclOperation.READ, GROUP, group_id)
        self.require(AclOperation.READ, TOPIC, *topics)

    async def run(self, check: Callable[[], None], work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of work that may wait; ends it if `check` raises because permissions changed."""
        return await (work if self.unrestricted else self.gateway.rechecks.run(check, work))

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
        if self.unrestricted or not catalog.broker.auto_create_topics_enable or catalog.topic(name):
            return None
        return self.create_denial(name)

    def create_denial(self, name: str) -> KafkaError | None:
        """Returns why the caller may not create a topic (Kafka: CREATE on the cluster or on the topic)."""
        if self.allows_on_cluster(AclOperation.CREATE):
            return None
        return self.denial(AclOperation.CREATE, TOPIC, name)
