"""Results of `Admin`, and its special timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicPartition

EARLIEST: Final = -2
"""As a timestamp: the log start offset."""
LATEST: Final = -1
"""As a timestamp: the log end offset."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic."""

    name: str
    """The name of the topic."""
    topic_id: str
    """The id of the topic; a topic created again under the same name has another id."""
    partitions: int
    """The number of partitions."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """The properties that are set for this topic; all others have their default."""


@dataclass(frozen=True, slots=True)
class UserDescription:
    """A user who can authenticate with a password."""

    name: str
    """The name of the user."""
    iterations: Mapping[str, int]
    """The number of PBKDF2 iterations of each credential, by SASL mechanism, such as SCRAM-SHA-256."""


@dataclass(frozen=True, slots=True)
class QuotaDescription:
    """The quotas of one entity."""

    entity: Mapping[str, str | None]
    """Names by entity type (user, client-id, ip); None is the default."""
    quotas: Mapping[str, float]
    """Rates per second by quota, such as producer_byte_rate."""


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """A feature of the cluster."""

    name: str
    """The name of the feature, such as share.version."""
    lowest: int
    """The lowest level that the server supports."""
    highest: int
    """The highest level that the server supports."""
    level: int
    """The level of the cluster."""


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The effective value of one property of a topic or a group."""

    name: str
    """The name of the property, as in Kafka."""
    value: str
    """The effective value."""
    is_default: bool
    """Whether no value is set for this topic or group."""
    documentation: str
    """What the property does."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in the list of groups."""

    group_id: str
    """The id of the group."""
    state: str
    """"Stable" with members, "Empty" without; a consumer group has Kafka's states."""
    group_type: str = "share"
    """"share" for share groups, "classic" for consumer groups."""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a share group."""

    member_id: str
    """The id of the member."""
    member_epoch: int
    """The assignment epoch that the member has reached."""
    client_id: str
    """The `client_id` of the member's settings."""
    client_host: str
    """The host that the member runs on, as it reports it."""
    topics: frozenset[str]
    """The topics that the member subscribes to."""
    assignment: Mapping[str, tuple[int, ...]]
    """The assigned partitions by topic name."""
    rack_id: str | None = None
    """The rack of the client, if its settings name one."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A share group and its members."""

    group_id: str
    """The id of the group."""
    state: str
    """"Stable" with members, "Empty" without."""
    group_epoch: int
    """The version of the group's metadata."""
    assignment_epoch: int
    """The version of the target assignment."""
    assignor: str
    """The name of the assignor."""
    members: tuple[MemberDescription, ...]
    """The members of the group."""


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """The position of a share group in one partition."""

    start_offset: int | None
    """The share-partition start offset; None if the group has not chosen one."""
    lag: int | None
    """The number of records that the group has not finished; None if it is not known."""
    leader_epoch: int
    """The lease epoch of the leader that wrote the state last."""
    ready: int | None = None
    """The number of records of `lag` that can be acquired now; None if it is not known."""
    locked: int | None = None
    """The number of records of `lag` that members hold; None if it is not known."""
    waiting: int | None = None
    """The number of records of `lag` that wait for the end of a delay; None if it is not known."""
    archiving: int | None = None
    """The number of records of `lag` that failed and wait for their dead letters; None if it is not known."""

    oldest: float | None = None
    """The time of the oldest record of `lag`, in seconds since the Unix epoch; None if it is not known."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member of a consumer group."""

    member_id: str
    """The id of the member."""
    client_id: str
    """The client id of the member's settings."""
    client_host: str
    """The host from which the member is connected."""
    group_instance_id: str | None = None
    """The id of a static member; None for others."""


@dataclass(frozen=True, slots=True)
class ConsumerOffset:
    """The position of a consumer group in one partition."""

    committed_offset: int
    """The committed offset."""
    lag: int | None
    """The end of the log minus the committed offset; None if it is not known."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A consumer group of Kafka clients, its members and its offsets."""

    group_id: str
    """The id of the group."""
    state: str
    """"Empty", "PreparingRebalance", "CompletingRebalance" or "Stable"."""
    assignor: str
    """The name of the assignor; empty without members."""
    members: tuple[ConsumerMember, ...]
    """The members of the group."""
    offsets: Mapping[TopicPartition, ConsumerOffset]
    """The committed offsets."""


@dataclass(frozen=True, slots=True)
class RetriedRun:
    """Neighbouring records that were retried; their copies are neighbours, too."""

    first_offset: int
    """The first offset."""
    last_offset: int
    """The last offset, inclusive."""
    copy_offset: int
    """The offset of the first copy."""


@dataclass(frozen=True, slots=True)
class RetryResult:
    """The outcome of a retry of one record."""

    partition: int
    """The number of the partition."""
    offset: int
    """The offset of the failed record."""
    copy_offset: int | None
    """The offset of the copy that the group receives; None if there is none."""
    error: KafkaError | None
    """Why there is no copy; None if there is one, or the record was only validated."""


@dataclass(frozen=True, slots=True)
class FailedEntry:
    """Records of a partition that a group archived together although no member accepted them."""

    partition: int
    """The number of the partition."""
    first_offset: int
    """The first offset."""
    last_offset: int
    """The last offset, inclusive."""
    disposition: str
    """How they failed: "rejected", "exhausted" (the delivery limit) or "expired" (their age)."""
    delivery_count: int
    """The number of deliveries to members."""
    time: float
    """When they failed, in seconds since the Unix epoch."""
    member_id: str
    """The member that held them last; empty if none did."""
    reason: str
    """The reason that the member gave, up to 256 characters."""
    retried: tuple[RetriedRun, ...] = ()
    """Those that were retried, as far as the log has the copies."""


@dataclass(frozen=True, slots=True)
class FailedListing:
    """The failed records of a group in a topic."""

    entries: tuple[FailedEntry, ...]
    """The entries, by partition and offset."""
    dropped: Mapping[int, int]
    """By partition: failed records that are no longer listed (`share.failed.records.max`)."""
