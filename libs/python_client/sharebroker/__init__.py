"""Sharebroker's Python client: share groups over gRPC.

`ShareConsumer`, `Producer` and `Admin` block; `sharebroker.aio` has the same classes for asyncio. `Worker`
calls a function for each record. Modules are loaded on first use, so that importing one name does not load
the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.version import __version__ as __version__

if TYPE_CHECKING:
    from sharebroker.acls import Acl, AclSelection
    from sharebroker.admin_model import (
        ConfigValue,
        ConsumerGroupDescription,
        ConsumerMember,
        ConsumerOffset,
        FailedEntry,
        FailedListing,
        FeatureDescription,
        GroupDescription,
        GroupListing,
        GroupOffset,
        MemberDescription,
        QuotaDescription,
        RetriedRun,
        RetryResult,
        TopicDescription,
        UserDescription,
    )
    from sharebroker.blocking.admin import Admin
    from sharebroker.blocking.consumer import ShareConsumer
    from sharebroker.blocking.dead_letters import DeadLetters
    from sharebroker.blocking.producer import Producer
    from sharebroker.client_errors import ConnectionLostError, RecordDeserializationError, WakeupError
    from sharebroker.consumer.config import (
        AcknowledgementOutcome,
        ConsumerConfig,
        LockLost,
        RebalanceListener,
        RecordResult,
    )
    from sharebroker.dead_letter_model import (
        DeadLetter,
        DeadLetterContent,
        DeadLetterCount,
        DeadLetterFilter,
        Discarded,
        RedrivePage,
        RedriveResult,
    )
    from sharebroker.inspection import LogInspection, StoredState, StoredStateBatch, StoredStateRecord
    from sharebroker.producer.buffer import Publication, RecordMetadata
    from sharebroker.producer.config import ProducerConfig
    from sharebroker.worker.config import MaxFailuresError, Reject, Retry, WorkerConfig
    from sharebroker.worker.runner import Worker
    from sharebroker_protocol.address import Address
    from sharebroker_protocol.errors import ErrorCode, FieldViolation, IllegalStateError, KafkaError
    from sharebroker_protocol.records.record import Acknowledgement, AcknowledgeType, Record

_HOMES = {
    "sharebroker.acls": "Acl AclSelection",
    "sharebroker.admin_model": "ConfigValue ConsumerGroupDescription ConsumerMember ConsumerOffset "
    "FailedEntry FailedListing FeatureDescription GroupDescription GroupListing GroupOffset "
    "MemberDescription QuotaDescription RetriedRun RetryResult TopicDescription UserDescription",
    "sharebroker.blocking.admin": "Admin",
    "sharebroker.blocking.consumer": "ShareConsumer",
    "sharebroker.blocking.dead_letters": "DeadLetters",
    "sharebroker.blocking.producer": "Producer",
    "sharebroker.client_errors": "ConnectionLostError RecordDeserializationError WakeupError",
    "sharebroker.consumer.config": "AcknowledgementOutcome ConsumerConfig LockLost "
    "RebalanceListener RecordResult",
    "sharebroker.dead_letter_model": "DeadLetter DeadLetterContent DeadLetterCount DeadLetterFilter "
    "Discarded RedrivePage RedriveResult",
    "sharebroker.inspection": "LogInspection StoredStateBatch StoredStateRecord StoredState",
    "sharebroker_protocol.address": "Address",
    "sharebroker_protocol.errors": "ErrorCode FieldViolation IllegalStateError KafkaError",
    "sharebroker.producer.config": "ProducerConfig",
    "sharebroker.producer.buffer": "Publication RecordMetadata",
    "sharebroker.worker.config": "MaxFailuresError Reject Retry WorkerConfig",
    "sharebroker.worker.runner": "Worker",
    "sharebroker_protocol.records.record": "AcknowledgeType Acknowledgement Record",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "AcknowledgeType",
    "Acknowledgement",
    "AcknowledgementOutcome",
    "Acl",
    "AclSelection",
    "Address",
    "Admin",
    "ConfigValue",
    "ConnectionLostError",
    "ConsumerConfig",
    "ConsumerGroupDescription",
    "ConsumerMember",
    "ConsumerOffset",
    "DeadLetter",
    "DeadLetterContent",
    "DeadLetterCount",
    "DeadLetterFilter",
    "DeadLetters",
    "Discarded",
    "ErrorCode",
    "FailedEntry",
    "FailedListing",
    "FeatureDescription",
    "FieldViolation",
    "GroupDescription",
    "GroupListing",
    "GroupOffset",
    "IllegalStateError",
    "KafkaError",
    "LockLost",
    "LogInspection",
    "MaxFailuresError",
    "MemberDescription",
    "Producer",
    "ProducerConfig",
    "Publication",
    "QuotaDescription",
    "RebalanceListener",
    "Record",
    "RecordDeserializationError",
    "RecordMetadata",
    "RecordResult",
    "RedrivePage",
    "RedriveResult",
    "Reject",
    "RetriedRun",
    "Retry",
    "RetryResult",
    "ShareConsumer",
    "StoredState",
    "StoredStateBatch",
    "StoredStateRecord",
    "TopicDescription",
    "TopicPartition",
    "UserDescription",
    "WakeupError",
    "Worker",
    "WorkerConfig",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
