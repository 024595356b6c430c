"""All errors of Sharebroker: Kafka's code, the gRPC status, and whether a retry can succeed.

Both sides use one table: servers raise `KafkaError`, the gRPC listener converts it to a status with
`google.rpc.ErrorInfo`, and the client raises the same exception. Codes and names are Kafka's
(`org.apache.kafka.common.protocol.Errors`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

ERROR_DOMAIN: Final = "sharebroker"
"""`ErrorInfo.domain` of every error."""


class ErrorCode(IntEnum):
    """Kafka's error codes that a broker with share groups needs. `protos/README.md` is checked against this.

    Each has the name of its gRPC status, whether a retry can help, and what it means. An unknown number maps
    to UNKNOWN_SERVER_ERROR, because the peer may be newer.
    """

    status: str
    retriable: bool
    text: str

    def __new__(cls, number: int, status: str = "", retriable: bool = False, text: str = "") -> Self:
        """Makes a member from a row of the table."""
        code = int.__new__(cls, number)
        code._value_ = number
        code.status = status
        code.retriable = retriable
        code.text = text
        return code

    # fmt: off
    UNKNOWN_SERVER_ERROR = -1, "INTERNAL", False, "The server failed in a way it did not expect."
    NONE = 0, "OK", False, "No error."
    OFFSET_OUT_OF_RANGE = 1, "OUT_OF_RANGE", False, "The offset is outside the partition's log."
    CORRUPT_MESSAGE = 2, "INVALID_ARGUMENT", False, "The record batch is corrupt."
    UNKNOWN_TOPIC_OR_PARTITION = 3, "NOT_FOUND", True, "This topic or partition does not exist."
    LEADER_NOT_AVAILABLE = 5, "UNAVAILABLE", True, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, "UNAVAILABLE", True, "Another process leads this partition."
    REQUEST_TIMED_OUT = 7, "DEADLINE_EXCEEDED", True, "The request ran out of time."
    REPLICA_NOT_AVAILABLE = 9, "UNAVAILABLE", True, "The partition is not available."
    MESSAGE_TOO_LARGE = 10, "INVALID_ARGUMENT", False, "A record or batch is larger than allowed."
    OFFSET_METADATA_TOO_LARGE = 12, "INVALID_ARGUMENT", False, "The text beside a committed offset is too long."
    NETWORK_EXCEPTION = 13, "UNAVAILABLE", True, "The connection broke before the answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, "UNAVAILABLE", True, "The coordinator is still loading."
    COORDINATOR_NOT_AVAILABLE = 15, "UNAVAILABLE", True, "No coordinator is available."
    NOT_COORDINATOR = 16, "UNAVAILABLE", True, "Another process is the coordinator."
    INVALID_TOPIC_EXCEPTION = 17, "INVALID_ARGUMENT", False, "The topic name is not legal."
    RECORD_LIST_TOO_LARGE = 18, "INVALID_ARGUMENT", False, "The batch is larger than allowed."
    INVALID_REQUIRED_ACKS = 21, "INVALID_ARGUMENT", False, "The number of acknowledgements is not legal."
    ILLEGAL_GENERATION = 22, "FAILED_PRECONDITION", False, "The generation is not the group's current one."
    INCONSISTENT_GROUP_PROTOCOL = 23, "FAILED_PRECONDITION", False, "The group works in another way than the member."
    INVALID_GROUP_ID = 24, "INVALID_ARGUMENT", False, "The group id is not legal."
    UNKNOWN_MEMBER_ID = 25, "FAILED_PRECONDITION", False, "The group does not know this member."
    INVALID_SESSION_TIMEOUT = 26, "INVALID_ARGUMENT", False, "The session timeout is out of bounds."
    REBALANCE_IN_PROGRESS = 27, "UNAVAILABLE", True, "The group is being changed."
    INVALID_COMMIT_OFFSET_SIZE = 28, "INVALID_ARGUMENT", False, "More offsets than may be committed at once."
    TOPIC_AUTHORIZATION_FAILED = 29, "PERMISSION_DENIED", False, "Not allowed on this topic."
    GROUP_AUTHORIZATION_FAILED = 30, "PERMISSION_DENIED", False, "Not allowed on this group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "PERMISSION_DENIED", False, "Not allowed on this cluster."
    INVALID_TIMESTAMP = 32, "INVALID_ARGUMENT", False, "The timestamp of a record is out of range."
    UNSUPPORTED_VERSION = 35, "UNIMPLEMENTED", False, "The server does not offer this."
    TOPIC_ALREADY_EXISTS = 36, "ALREADY_EXISTS", False, "A topic of this name exists."
    INVALID_PARTITIONS = 37, "INVALID_ARGUMENT", False, "The number of partitions is not legal."
    INVALID_REPLICATION_FACTOR = 38, "INVALID_ARGUMENT", False, "The replication factor is not legal."
    INVALID_REPLICA_ASSIGNMENT = 39, "INVALID_ARGUMENT", False, "The replica assignment is not legal."
    INVALID_CONFIG = 40, "INVALID_ARGUMENT", False, "A configuration value is not legal."
    INVALID_REQUEST = 42, "INVALID_ARGUMENT", False, "The request is not legal."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "FAILED_PRECONDITION", False, "The message format does not allow this."
    POLICY_VIOLATION = 44, "FAILED_PRECONDITION", False, "A policy of the server forbids this."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "FAILED_PRECONDITION", False, "A producer's batch is missing."
    DUPLICATE_SEQUENCE_NUMBER = 46, "ALREADY_EXISTS", False, "The producer sent this batch before."
    INVALID_PRODUCER_EPOCH = 47, "FAILED_PRECONDITION", False, "The producer epoch is older than the current one."
    INVALID_TXN_STATE = 48, "FAILED_PRECONDITION", False, "The transaction is not in a state for this."
    INVALID_PRODUCER_ID_MAPPING = 49, "FAILED_PRECONDITION", False, "The producer id is not that of the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "INVALID_ARGUMENT", False, "The transaction timeout is longer than allowed."
    CONCURRENT_TRANSACTIONS = 51, "UNAVAILABLE", True, "The transaction before this one is still being ended."
    TRANSACTION_COORDINATOR_FENCED = 52, "FAILED_PRECONDITION", False, "The coordinator's epoch is older than the current one."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "PERMISSION_DENIED", False, "Not allowed for this transactional id."
    OPERATION_NOT_ATTEMPTED = 55, "FAILED_PRECONDITION", False, "Something else in the request failed, so this was not tried."
    KAFKA_STORAGE_ERROR = 56, "UNAVAILABLE", True, "The store refuses writes; nothing was written."
    UNKNOWN_PRODUCER_ID = 59, "FAILED_PRECONDITION", False, "Nothing is known of this producer."
    NON_EMPTY_GROUP = 68, "FAILED_PRECONDITION", False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "NOT_FOUND", False, "There is no share group of this name."
    FETCH_SESSION_ID_NOT_FOUND = 70, "NOT_FOUND", True, "There is no fetch session of this id."
    INVALID_FETCH_SESSION_EPOCH = 71, "FAILED_PRECONDITION", True, "The fetch session epoch is not the expected one."
    TOPIC_DELETION_DISABLED = 73, "FAILED_PRECONDITION", False, "Topics cannot be deleted here."
    FENCED_LEADER_EPOCH = 74, "FAILED_PRECONDITION", False, "The leader epoch is older than the stored one."
    UNKNOWN_LEADER_EPOCH = 75, "UNAVAILABLE", True, "The leader epoch is newer than the one known here."
    UNSUPPORTED_COMPRESSION_TYPE = 76, "INVALID_ARGUMENT", False, "This compression is not known."
    OFFSET_NOT_AVAILABLE = 78, "UNAVAILABLE", True, "No offset can be given for this at the moment."
    MEMBER_ID_REQUIRED = 79, "FAILED_PRECONDITION", False, "Join again with the member id given here."
    GROUP_MAX_SIZE_REACHED = 81, "RESOURCE_EXHAUSTED", False, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, "FAILED_PRECONDITION", False, "Another member has this instance id now."
    INVALID_RECORD = 87, "INVALID_ARGUMENT", False, "A record is not legal."
    UNSTABLE_OFFSET_COMMIT = 88, "UNAVAILABLE", True, "A transaction over this offset is still going on."
    THROTTLING_QUOTA_EXCEEDED = 89, "RESOURCE_EXHAUSTED", True, "Too much at once; slow down."
    PRODUCER_FENCED = 90, "FAILED_PRECONDITION", False, "A newer producer has the same transactional id."
    INVALID_UPDATE_VERSION = 95, "INVALID_ARGUMENT", False, "The feature cannot have this level."
    FEATURE_UPDATE_FAILED = 96, "FAILED_PRECONDITION", False, "The features could not be changed."
    UNKNOWN_TOPIC_ID = 100, "NOT_FOUND", True, "There is no topic of this id."
    INCONSISTENT_TOPIC_ID = 103, "FAILED_PRECONDITION", True, "The topic's id is another one."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "NOT_FOUND", False, "There is no such transactional id."
    FENCED_MEMBER_EPOCH = 110, "FAILED_PRECONDITION", False, "The member epoch is not the current one; join again."
    MISMATCHED_ENDPOINT_TYPE = 114, "INVALID_ARGUMENT", False, "This is a broker, not a controller."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "INVALID_ARGUMENT", False, "There are no servers of this kind."
    TRANSACTION_ABORTABLE = 120, "ABORTED", False, "The transaction can only be aborted."
    INVALID_RECORD_STATE = 121, "FAILED_PRECONDITION", False, "The record is not held by this member."
    SHARE_SESSION_NOT_FOUND = 122, "FAILED_PRECONDITION", False, "There is no share session of this member."
    INVALID_SHARE_SESSION_EPOCH = 123, "FAILED_PRECONDITION", False, "The share session epoch is not the expected one."
    FENCED_STATE_EPOCH = 124, "FAILED_PRECONDITION", False, "The state epoch is older than the stored one."
    SHARE_SESSION_LIMIT_REACHED = 133, "RESOURCE_EXHAUSTED", True, "No more share sessions can be opened."
    # fmt: on

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
        self.message = message or code.text
        self.metadata: dict[str, str] = dict(metadata or {})
        self.violations = tuple(violations)
        self.retry_after = retry_after
        super().__init__(f"{code.name}: {self.message}")

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later without a change."""
        return self.code.retriable


def invalid_field(field: str, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> KafkaError:
    """Returns the error for one invalid field of a request."""
    return KafkaError(code, message, violations=[FieldViolation(field, message)])
