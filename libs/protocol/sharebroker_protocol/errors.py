"""All errors of Sharebroker: Kafka's code, the gRPC status, and whether a retry can succeed.

Both sides use one table: servers raise `KafkaError`, the gRPC listener converts it to a status with
`google.rpc.ErrorInfo`, and the client raises the same exception. Codes and names are Kafka's
(`org.apache.kafka.common.protocol.Errors`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

ERROR_DOMAIN: Final = "sharebroker"
"""`ErrorInfo.domain` of every error."""


class ErrorCode(IntEnum):
    """Kafka's error codes that a broker with share groups needs.

    An unknown number maps to UNKNOWN_SERVER_ERROR, because the peer may be newer.
    """

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FENCED_MEMBER_EPOCH = 110
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    SHARE_SESSION_LIMIT_REACHED = 133

    @classmethod
    def _missing_(cls, _value: object) -> ErrorCode:
        return cls.UNKNOWN_SERVER_ERROR


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field of a request that cannot be accepted (`google.rpc.BadRequest.FieldViolation`)."""

    field: str
    description: str


class IllegalStateError(RuntimeError):
    """The call is not allowed in the present state (Kafka: IllegalStateException). Nothing has changed."""


class KafkaError(Exception):
    """A failed request with Kafka's error code. Nothing was changed, not even in part.

    `metadata` goes into `ErrorInfo.metadata` (names, offsets and epochs that a handler needs),
    `violations` into `BadRequest`, `retry_after` (seconds) into `RetryInfo`.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str = "",
        *,
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[FieldViolation] = (),
        retry_after: float | None = None,
    ) -> None:
        self.code = code
        self.message = message or DESCRIPTIONS[code].text
        self.metadata: dict[str, str] = dict(metadata or {})
        self.violations = tuple(violations)
        self.retry_after = retry_after
        super().__init__(f"{code.name}: {self.message}")

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later without a change."""
        return DESCRIPTIONS[self.code].retriable


@dataclass(frozen=True, slots=True)
class Description:
    """A row of the error table: the gRPC status name, whether a retry can help, and what it means."""

    status: str
    retriable: bool
    text: str


_ROWS: Final[tuple[tuple[ErrorCode, str, bool, str], ...]] = (
    (ErrorCode.UNKNOWN_SERVER_ERROR, "INTERNAL", False, "The server failed in a way it did not expect."),
    (ErrorCode.NONE, "OK", False, "No error."),
    (ErrorCode.OFFSET_OUT_OF_RANGE, "OUT_OF_RANGE", False, "The offset is outside the partition's log."),
    (ErrorCode.CORRUPT_MESSAGE, "INVALID_ARGUMENT", False, "The record batch is corrupt."),
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "NOT_FOUND", True, "This topic or partition does not exist."),
    (ErrorCode.LEADER_NOT_AVAILABLE, "UNAVAILABLE", True, "The partition has no leader at the moment."),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, "UNAVAILABLE", True, "Another process leads this partition."),
    (ErrorCode.REQUEST_TIMED_OUT, "DEADLINE_EXCEEDED", True, "The request ran out of time."),
    (ErrorCode.REPLICA_NOT_AVAILABLE, "UNAVAILABLE", True, "The partition is not available."),
    (ErrorCode.MESSAGE_TOO_LARGE, "INVALID_ARGUMENT", False, "A record or batch is larger than allowed."),
    (ErrorCode.OFFSET_METADATA_TOO_LARGE, "INVALID_ARGUMENT", False, "The text beside a committed offset is too long."),
    (ErrorCode.NETWORK_EXCEPTION, "UNAVAILABLE", True, "The connection broke before the answer came."),
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "UNAVAILABLE", True, "The coordinator is still loading."),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, "UNAVAILABLE", True, "No coordinator is available."),
    (ErrorCode.NOT_COORDINATOR, "UNAVAILABLE", True, "Another process is the coordinator."),
    (ErrorCode.INVALID_TOPIC_EXCEPTION, "INVALID_ARGUMENT", False, "The topic name is not legal."),
    (ErrorCode.RECORD_LIST_TOO_LARGE, "INVALID_ARGUMENT", False, "The batch is larger than allowed."),
    (ErrorCode.INVALID_REQUIRED_ACKS, "INVALID_ARGUMENT", False, "The number of acknowledgements is not legal."),
    (ErrorCode.ILLEGAL_GENERATION, "FAILED_PRECONDITION", False, "The generation is not the group's current one."),
    (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "FAILED_PRECONDITION", False, "The group works in another way than the member."),
    (ErrorCode.INVALID_GROUP_ID, "INVALID_ARGUMENT", False, "The group id is not legal."),
    (ErrorCode.UNKNOWN_MEMBER_ID, "FAILED_PRECONDITION", False, "The group does not know this member."),
    (ErrorCode.INVALID_SESSION_TIMEOUT, "INVALID_ARGUMENT", False, "The session timeout is out of bounds."),
    (ErrorCode.REBALANCE_IN_PROGRESS, "UNAVAILABLE", True, "The group is being changed."),
    (ErrorCode.INVALID_COMMIT_OFFSET_SIZE, "INVALID_ARGUMENT", False, "More offsets than may be committed at once."),
    (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "PERMISSION_DENIED", False, "Not allowed on this topic."),
    (ErrorCode.GROUP_AUTHORIZATION_FAILED, "PERMISSION_DENIED", False, "Not allowed on this group."),
    (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "PERMISSION_DENIED", False, "Not allowed on this cluster."),
    (ErrorCode.INVALID_TIMESTAMP, "INVALID_ARGUMENT", False, "The timestamp of a record is out of range."),
    (ErrorCode.UNSUPPORTED_VERSION, "UNIMPLEMENTED", False, "The server does not offer this."),
    (ErrorCode.TOPIC_ALREADY_EXISTS, "ALREADY_EXISTS", False, "A topic of this name exists."),
    (ErrorCode.INVALID_PARTITIONS, "INVALID_ARGUMENT", False, "The number of partitions is not legal."),
    (ErrorCode.INVALID_REPLICATION_FACTOR, "INVALID_ARGUMENT", False, "The replication factor is not legal."),
    (ErrorCode.INVALID_REPLICA_ASSIGNMENT, "INVALID_ARGUMENT", False, "The replica assignment is not legal."),
    (ErrorCode.INVALID_CONFIG, "INVALID_ARGUMENT", False, "A configuration value is not legal."),
    (ErrorCode.INVALID_REQUEST, "INVALID_ARGUMENT", False, "The request is not legal."),
    (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "FAILED_PRECONDITION", False, "The message format does not allow this."),
    (ErrorCode.POLICY_VIOLATION, "FAILED_PRECONDITION", False, "A policy of the server forbids this."),
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "FAILED_PRECONDITION", False, "A producer's batch is missing."),
    (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, "ALREADY_EXISTS", False, "The producer sent this batch before."),
    (ErrorCode.INVALID_PRODUCER_EPOCH, "FAILED_PRECONDITION", False, "The producer epoch is older than the current one."),
    (ErrorCode.INVALID_TXN_STATE, "FAILED_PRECONDITION", False, "The transaction is not in a state for this."),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, "FAILED_PRECONDITION", False, "The producer id is not that of the transactional id."),
    (ErrorCode.INVALID_TRANSACTION_TIMEOUT, "INVALID_ARGUMENT", False, "The transaction timeout is longer than allowed."),
    (ErrorCode.CONCURRENT_TRANSACTIONS, "UNAVAILABLE", True, "The transaction before this one is still being ended."),
    (ErrorCode.TRANSACTION_COORDINATOR_FENCED, "FAILED_PRECONDITION", False, "The coordinator's epoch is older than the current one."),
    (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "PERMISSION_DENIED", False, "Not allowed for this transactional id."),
    (ErrorCode.OPERATION_NOT_ATTEMPTED, "FAILED_PRECONDITION", False, "Something else in the request failed, so this was not tried."),
    (ErrorCode.KAFKA_STORAGE_ERROR, "UNAVAILABLE", True, "The store refuses writes; nothing was written."),
    (ErrorCode.UNKNOWN_PRODUCER_ID, "FAILED_PRECONDITION", False, "Nothing is known of this producer."),
    (ErrorCode.NON_EMPTY_GROUP, "FAILED_PRECONDITION", False, "The group still has members."),
    (ErrorCode.GROUP_ID_NOT_FOUND, "NOT_FOUND", False, "There is no share group of this name."),
    (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "NOT_FOUND", True, "There is no fetch session of this id."),
    (ErrorCode.INVALID_FETCH_SESSION_EPOCH, "FAILED_PRECONDITION", True, "The fetch session epoch is not the expected one."),
    (ErrorCode.TOPIC_DELETION_DISABLED, "FAILED_PRECONDITION", False, "Topics cannot be deleted here."),
    (ErrorCode.FENCED_LEADER_EPOCH, "FAILED_PRECONDITION", False, "The leader epoch is older than the stored one."),
    (ErrorCode.UNKNOWN_LEADER_EPOCH, "UNAVAILABLE", True, "The leader epoch is newer than the one known here."),
    (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "INVALID_ARGUMENT", False, "This compression is not known."),
    (ErrorCode.OFFSET_NOT_AVAILABLE, "UNAVAILABLE", True, "No offset can be given for this at the moment."),
    (ErrorCode.MEMBER_ID_REQUIRED, "FAILED_PRECONDITION", False, "Join again with the member id given here."),
    (ErrorCode.GROUP_MAX_SIZE_REACHED, "RESOURCE_EXHAUSTED", False, "The group has as many members as it may have."),
    (ErrorCode.FENCED_INSTANCE_ID, "FAILED_PRECONDITION", False, "Another member has this instance id now."),
    (ErrorCode.INVALID_RECORD, "INVALID_ARGUMENT", False, "A record is not legal."),
    (ErrorCode.UNSTABLE_OFFSET_COMMIT, "UNAVAILABLE", True, "A transaction over this offset is still going on."),
    (ErrorCode.THROTTLING_QUOTA_EXCEEDED, "RESOURCE_EXHAUSTED", True, "Too much at once; slow down."),
    (ErrorCode.PRODUCER_FENCED, "FAILED_PRECONDITION", False, "A newer producer has the same transactional id."),
    (ErrorCode.INVALID_UPDATE_VERSION, "INVALID_ARGUMENT", False, "The feature cannot have this level."),
    (ErrorCode.FEATURE_UPDATE_FAILED, "FAILED_PRECONDITION", False, "The features could not be changed."),
    (ErrorCode.UNKNOWN_TOPIC_ID, "NOT_FOUND", True, "There is no topic of this id."),
    (ErrorCode.INCONSISTENT_TOPIC_ID, "FAILED_PRECONDITION", True, "The topic's id is another one."),
    (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "NOT_FOUND", False, "There is no such transactional id."),
    (ErrorCode.FENCED_MEMBER_EPOCH, "FAILED_PRECONDITION", False, "The member epoch is not the current one; join again."),
    (ErrorCode.MISMATCHED_ENDPOINT_TYPE, "INVALID_ARGUMENT", False, "This is a broker, not a controller."),
    (ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "INVALID_ARGUMENT", False, "There are no servers of this kind."),
    (ErrorCode.TRANSACTION_ABORTABLE, "ABORTED", False, "The transaction can only be aborted."),
    (ErrorCode.INVALID_RECORD_STATE, "FAILED_PRECONDITION", False, "The record is not held by this member."),
    (ErrorCode.SHARE_SESSION_NOT_FOUND, "FAILED_PRECONDITION", False, "There is no share session of this member."),
    (ErrorCode.INVALID_SHARE_SESSION_EPOCH, "FAILED_PRECONDITION", False, "The share session epoch is not the expected one."),
    (ErrorCode.FENCED_STATE_EPOCH, "FAILED_PRECONDITION", False, "The state epoch is older than the stored one."),
    (ErrorCode.SHARE_SESSION_LIMIT_REACHED, "RESOURCE_EXHAUSTED", True, "No more share sessions can be opened."),
)  # fmt: skip

DESCRIPTIONS: Final[Mapping[ErrorCode, Description]] = {
    code: Description(status, retriable, text) for code, status, retriable, text in _ROWS
}
"""The error table; `protos/README.md` is checked against it."""
