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

TRANSPORT: Final = "transport"
"""Metadata key of an error that gRPC raised and no server sent; the value is the gRPC status name."""


class ErrorCode(IntEnum):
    """Kafka's error codes that a broker with share groups needs. `protos/README.md` is checked against this.

    An unknown number maps to UNKNOWN_SERVER_ERROR, because the peer may be newer.
    """

    status: str
    """The name of the gRPC status."""
    retriable: bool
    """Whether a retry can help."""
    text: str
    """The meaning of the error."""

    def __new__(cls, number: int, status: str = "", retriable: bool = False, text: str = "") -> Self:
        """Makes a member from a row of the table."""
        code = int.__new__(cls, number)
        code._value_ = number
        code.status = status
        code.retriable = retriable
        code.text = text
        return code

    # fmt: off
    UNKNOWN_SERVER_ERROR = -1, "INTERNAL", False, "The server failed unexpectedly."
    NONE = 0, "OK", False, "No error."
    OFFSET_OUT_OF_RANGE = 1, "OUT_OF_RANGE", False, "The offset is outside the partition's log."
    CORRUPT_MESSAGE = 2, "INVALID_ARGUMENT", False, "The record batch is corrupt."
    UNKNOWN_TOPIC_OR_PARTITION = 3, "NOT_FOUND", True, "This topic or partition does not exist."
    LEADER_NOT_AVAILABLE = 5, "UNAVAILABLE", True, "The partition has no leader now."
    NOT_LEADER_OR_FOLLOWER = 6, "UNAVAILABLE", True, "Another process leads this partition."
    REQUEST_TIMED_OUT = 7, "DEADLINE_EXCEEDED", True, "The request timed out."
    REPLICA_NOT_AVAILABLE = 9, "UNAVAILABLE", True, "The partition is not available."
    MESSAGE_TOO_LARGE = 10, "INVALID_ARGUMENT", False, "A record or a record batch is too large."
    OFFSET_METADATA_TOO_LARGE = 12, "INVALID_ARGUMENT", False, "The metadata of a committed offset is too long."
    NETWORK_EXCEPTION = 13, "UNAVAILABLE", True, "The connection was lost before the response arrived."
    COORDINATOR_LOAD_IN_PROGRESS = 14, "UNAVAILABLE", True, "The coordinator is still loading."
    COORDINATOR_NOT_AVAILABLE = 15, "UNAVAILABLE", True, "No coordinator is available."
    NOT_COORDINATOR = 16, "UNAVAILABLE", True, "Another process is the coordinator."
    INVALID_TOPIC_EXCEPTION = 17, "INVALID_ARGUMENT", False, "The topic name is invalid."
    RECORD_LIST_TOO_LARGE = 18, "INVALID_ARGUMENT", False, "The record batch is too large."
    INVALID_REQUIRED_ACKS = 21, "INVALID_ARGUMENT", False, "The value of acks is invalid."
    ILLEGAL_GENERATION = 22, "FAILED_PRECONDITION", False, "The generation is not the current one of the group."
    INCONSISTENT_GROUP_PROTOCOL = 23, "FAILED_PRECONDITION", False, "The group uses another protocol type or other protocols."
    INVALID_GROUP_ID = 24, "INVALID_ARGUMENT", False, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, "FAILED_PRECONDITION", False, "The group has no member with this id."
    INVALID_SESSION_TIMEOUT = 26, "INVALID_ARGUMENT", False, "The session timeout is out of bounds."
    REBALANCE_IN_PROGRESS = 27, "UNAVAILABLE", True, "The group is rebalancing."
    INVALID_COMMIT_OFFSET_SIZE = 28, "INVALID_ARGUMENT", False, "The request commits too many offsets."
    TOPIC_AUTHORIZATION_FAILED = 29, "PERMISSION_DENIED", False, "Access to the topic is denied."
    GROUP_AUTHORIZATION_FAILED = 30, "PERMISSION_DENIED", False, "Access to the group is denied."
    CLUSTER_AUTHORIZATION_FAILED = 31, "PERMISSION_DENIED", False, "Access to the cluster is denied."
    INVALID_TIMESTAMP = 32, "INVALID_ARGUMENT", False, "The timestamp of a record is out of range."
    UNSUPPORTED_SASL_MECHANISM = 33, "INVALID_ARGUMENT", False, "The SASL mechanism is not enabled."
    ILLEGAL_SASL_STATE = 34, "FAILED_PRECONDITION", False, "The state of the SASL exchange does not permit this request."
    UNSUPPORTED_VERSION = 35, "UNIMPLEMENTED", False, "The server does not support this request or version."
    TOPIC_ALREADY_EXISTS = 36, "ALREADY_EXISTS", False, "A topic with this name already exists."
    INVALID_PARTITIONS = 37, "INVALID_ARGUMENT", False, "The number of partitions is invalid."
    INVALID_REPLICATION_FACTOR = 38, "INVALID_ARGUMENT", False, "The replication factor is invalid."
    INVALID_REPLICA_ASSIGNMENT = 39, "INVALID_ARGUMENT", False, "The replica assignment is invalid."
    INVALID_CONFIG = 40, "INVALID_ARGUMENT", False, "A configuration value is invalid."
    INVALID_REQUEST = 42, "INVALID_ARGUMENT", False, "The request is invalid."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "FAILED_PRECONDITION", False, "The message format does not support this request."
    POLICY_VIOLATION = 44, "FAILED_PRECONDITION", False, "A policy of the server forbids the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "FAILED_PRECONDITION", False, "The sequence number does not follow the producer's last one."
    DUPLICATE_SEQUENCE_NUMBER = 46, "ALREADY_EXISTS", False, "The producer has already sent this batch."
    INVALID_PRODUCER_EPOCH = 47, "FAILED_PRECONDITION", False, "The producer epoch is older than the current one."
    INVALID_TXN_STATE = 48, "FAILED_PRECONDITION", False, "The state of the transaction does not allow this request."
    INVALID_PRODUCER_ID_MAPPING = 49, "FAILED_PRECONDITION", False, "The producer id does not belong to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "INVALID_ARGUMENT", False, "The transaction timeout exceeds the maximum."
    CONCURRENT_TRANSACTIONS = 51, "UNAVAILABLE", True, "The previous transaction is still completing."
    TRANSACTION_COORDINATOR_FENCED = 52, "FAILED_PRECONDITION", False, "The coordinator's epoch is older than the current one."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "PERMISSION_DENIED", False, "Access to the transactional id is denied."
    SECURITY_DISABLED = 54, "FAILED_PRECONDITION", False, "Access control is disabled."
    OPERATION_NOT_ATTEMPTED = 55, "FAILED_PRECONDITION", False, "The operation was skipped because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, "UNAVAILABLE", True, "The store rejects writes; nothing was written."
    SASL_AUTHENTICATION_FAILED = 58, "UNAUTHENTICATED", False, "Authentication failed."
    UNKNOWN_PRODUCER_ID = 59, "FAILED_PRECONDITION", False, "The partition has no state of this producer."
    NON_EMPTY_GROUP = 68, "FAILED_PRECONDITION", False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "NOT_FOUND", False, "The share group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, "NOT_FOUND", True, "The fetch session does not exist."
    INVALID_FETCH_SESSION_EPOCH = 71, "FAILED_PRECONDITION", True, "The fetch session epoch is not the expected one."
    TOPIC_DELETION_DISABLED = 73, "FAILED_PRECONDITION", False, "Topic deletion is disabled."
    FENCED_LEADER_EPOCH = 74, "FAILED_PRECONDITION", False, "The leader epoch is older than the stored one."
    UNKNOWN_LEADER_EPOCH = 75, "UNAVAILABLE", True, "The leader epoch is newer than the current one."
    UNSUPPORTED_COMPRESSION_TYPE = 76, "INVALID_ARGUMENT", False, "The compression type is not supported."
    OFFSET_NOT_AVAILABLE = 78, "UNAVAILABLE", True, "The offset is not available yet."
    MEMBER_ID_REQUIRED = 79, "FAILED_PRECONDITION", False, "The member has to join again with the member id of this response."
    GROUP_MAX_SIZE_REACHED = 81, "RESOURCE_EXHAUSTED", False, "The group has reached its maximum size."
    FENCED_INSTANCE_ID = 82, "FAILED_PRECONDITION", False, "Another member has taken over this group instance id."
    INVALID_RECORD = 87, "INVALID_ARGUMENT", False, "A record is invalid."
    UNSTABLE_OFFSET_COMMIT = 88, "UNAVAILABLE", True, "An open transaction may still change this offset."
    THROTTLING_QUOTA_EXCEEDED = 89, "RESOURCE_EXHAUSTED", True, "A quota is exceeded; send requests more slowly."
    PRODUCER_FENCED = 90, "FAILED_PRECONDITION", False, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, "NOT_FOUND", False, "The user has no such credential."
    DUPLICATE_RESOURCE = 92, "INVALID_ARGUMENT", False, "The request names a user twice."
    UNACCEPTABLE_CREDENTIAL = 93, "INVALID_ARGUMENT", False, "The credential is not acceptable."
    INVALID_UPDATE_VERSION = 95, "INVALID_ARGUMENT", False, "The feature does not support this version level."
    FEATURE_UPDATE_FAILED = 96, "FAILED_PRECONDITION", False, "The features could not be updated."
    UNKNOWN_TOPIC_ID = 100, "NOT_FOUND", True, "No topic has this id."
    INCONSISTENT_TOPIC_ID = 103, "FAILED_PRECONDITION", True, "The topic id does not match the topic."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "NOT_FOUND", False, "The transactional id does not exist."
    FENCED_MEMBER_EPOCH = 110, "FAILED_PRECONDITION", False, "The member epoch is not the current one; the member has to join again."
    MISMATCHED_ENDPOINT_TYPE = 114, "INVALID_ARGUMENT", False, "The request is for a controller, but this is a broker."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "INVALID_ARGUMENT", False, "The endpoint type is not supported."
    TRANSACTION_ABORTABLE = 120, "ABORTED", False, "The transaction can only be aborted."
    INVALID_RECORD_STATE = 121, "FAILED_PRECONDITION", False, "The member does not hold the record."
    SHARE_SESSION_NOT_FOUND = 122, "FAILED_PRECONDITION", False, "The share session does not exist."
    INVALID_SHARE_SESSION_EPOCH = 123, "FAILED_PRECONDITION", False, "The share session epoch is not the expected one."
    FENCED_STATE_EPOCH = 124, "FAILED_PRECONDITION", False, "The state epoch is older than the stored one."
    REBOOTSTRAP_REQUIRED = 129, "FAILED_PRECONDITION", False, "The client has to start from its bootstrap addresses."
    SHARE_SESSION_LIMIT_REACHED = 133, "RESOURCE_EXHAUSTED", True, "The maximum number of share sessions is open."
    # fmt: on

    @classmethod
    def _missing_(cls, _value: object) -> ErrorCode:
        return cls.UNKNOWN_SERVER_ERROR


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field of a request that cannot be accepted (`google.rpc.BadRequest.FieldViolation`)."""

    field: str
    """The name of the field."""
    description: str
    """Why its value cannot be accepted."""


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
