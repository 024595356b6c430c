"""The session's part of ShareFetch and ShareAcknowledge: what is asked, in which order, what is answered.

Kafka: ShareSessionContext, FinalContext, SharePartitionManager.newContext.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.gateway.core.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Session,
    SessionCache,
    epoch_refused,
    next_epoch,
)
from sharebroker_server.gateway.core.values import SessionKey


class FetchIntent(NamedTuple):
    """What a ShareFetch says of its session; `connection` names the client's connection."""

    key: SessionKey
    epoch: int
    connection: str
    wanted: Sequence[TopicIdPartition] = ()
    forgotten: Sequence[TopicIdPartition] = ()
    acknowledges: bool = False


class PartitionOutcome(NamedTuple):
    """How one partition's fetch went."""

    partition: TopicIdPartition
    has_records: bool
    error: ErrorCode = ErrorCode.NONE


class FetchContext(NamedTuple):
    """A request within its session: `partitions` are to be fetched, in this order."""

    session: Session
    epoch: int
    partitions: Sequence[TopicIdPartition] = ()

    @property
    def final(self) -> bool:
        """Whether the session ends with this request."""
        return self.epoch == FINAL_EPOCH

    def reported(self, outcomes: Iterable[PartitionOutcome]) -> list[TopicIdPartition]:
        """The partitions that belong in the answer: all for the request that opened the session.

        Raises INVALID_SHARE_SESSION_EPOCH when another request overtook this one; it keeps what it acquired.
        """
        if self.final:
            return []
        if self.session.epoch != next_epoch(self.epoch):
            raise epoch_refused(self.session, self.epoch)
        return [
            outcome.partition
            for outcome in outcomes
            if self.session.reports(outcome.partition, outcome.error, has_records=outcome.has_records)
            or self.epoch == INITIAL_EPOCH
        ]


def begin_fetch(cache: SessionCache, intent: FetchIntent, now: float) -> FetchContext:
    """Open, advance or find the session of a ShareFetch.

    Raises INVALID_REQUEST (acknowledgements that open a session), SHARE_SESSION_LIMIT_REACHED,
    SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
    """
    if intent.epoch == FINAL_EPOCH:
        return FetchContext(cache.find(intent.key), FINAL_EPOCH)
    if intent.epoch == INITIAL_EPOCH:
        if intent.acknowledges:
            raise _acknowledges_at_first()
        session = cache.open(intent.key, intent.connection, intent.wanted, now)
    else:
        session = cache.advance(intent.key, intent.epoch, now)
        session.change(intent.wanted, intent.forgotten)
    return FetchContext(session, intent.epoch, session.in_turn(intent.epoch))


def begin_acknowledge(cache: SessionCache, key: SessionKey, epoch: int, now: float) -> FetchContext:
    """Advance or find the session of a ShareAcknowledge; there is nothing to fetch.

    Raises SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH (epoch 0: always).
    """
    if epoch == FINAL_EPOCH:
        return FetchContext(cache.find(key), FINAL_EPOCH)
    if epoch == INITIAL_EPOCH:
        raise KafkaError(
            ErrorCode.INVALID_SHARE_SESSION_EPOCH, "An acknowledgement cannot open a share session (epoch 0)."
        )
    return FetchContext(cache.advance(key, epoch, now), epoch)


_SHOWN = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


def shown_error(error: ErrorCode) -> ErrorCode:
    """The error of a partition as a fetch may show it: Kafka's client throws on any that it does not know.

    OFFSET_NOT_AVAILABLE, which makes it try again, stands for the rest.
    """
    return error if error in _SHOWN else ErrorCode.OFFSET_NOT_AVAILABLE


def merged(
    entries: Iterable[tuple[TopicIdPartition, Sequence[AckBatch]]],
) -> dict[TopicIdPartition, list[AckBatch]]:
    """Partitions of a request by first mention; the batches of one that is repeated follow each other."""
    batches: dict[TopicIdPartition, list[AckBatch]] = {}
    for partition, more in entries:
        batches.setdefault(partition, []).extend(more)
    return batches


def _acknowledges_at_first() -> KafkaError:
    message = "A request that opens a share session (epoch 0) cannot carry acknowledgements."
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        message,
        violations=[FieldViolation("topics.partitions.acknowledgement_batches", message)],
    )
