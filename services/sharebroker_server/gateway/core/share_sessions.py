"""Share sessions: which member fetches which partitions over which connection, at which epoch.

Kafka: ShareSessionCache, ShareSession, ShareSessionContext, SharePartitionManager.newContext.

Theory of operation
-------------------

A session belongs to a group and member, and to the connection that opened it. Every request carries an epoch:

* 0 opens a session in place of the member's earlier one. The new session inherits the earlier one's id,
  because the leaders have that id on the acquired records, and its partitions as `forgotten`.
* n must be the epoch that the session expects; the session then expects n + 1. Requests in flight are so put
  in order: a request that a later one overtook fails with INVALID_SHARE_SESSION_EPOCH.
* -1 closes the session; its leaders release the records that it acquired.

A session ends by a request with epoch -1, by the end of its connection, or because it is idle. The code that
removes a session from the cache must release its records (`share.acknowledge.release_session_records`), once.

Per partition the session stores whether the next response must include it although it has no records: after
an error, or because it is new. So an incremental response omits partitions without a change.

A request calls `begin_fetch` or `begin_acknowledge` first, which returns its `FetchContext`: the session and
the partitions to fetch. `FetchContext.reported` selects the partitions of the response, after the fetch.

`routes` are the leaders that the session is bound to (`clients.Leaders`). The rules only drop a partition's
route together with the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.gateway.core.validation import check_member
from sharebroker_server.leader_calls.values import AcquireResult, RecordsWatch


class SessionKey(NamedTuple):
    """Names the share session of a principal's member.

    A member id of another principal names another session: without that, a client that guesses a member id
    could replace, advance or close the session. `principal` "" is ANONYMOUS.
    """

    group_id: str
    member_id: str
    principal: str = ""


INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """The following epoch: -1 stays; the largest int32 wraps to 1, because 0 would open a session."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _LAST_EPOCH else epoch + 1


class ShareSession:
    """A member's share session; see the module.

    `partitions` keeps the order of insertion; its values are Kafka's requiresUpdateInResponse. `forgotten`
    partitions may still have records of the member. `watch` observes the partitions while they have no
    records, for requests of `watch_caller`. `id` marks the records that leaders release at the session's end.
    """

    __slots__ = (
        "connection",
        "epoch",
        "forgotten",
        "id",
        "key",
        "last_used",
        "partitions",
        "routes",
        "watch",
        "watch_caller",
    )

    def __init__(
        self,
        key: SessionKey,
        session_id: str,
        connection: str,
        partitions: Iterable[TopicIdPartition],
        now: float,
    ) -> None:
        self.key = key
        self.id = session_id
        self.connection = connection
        self.partitions: dict[TopicIdPartition, bool] = dict.fromkeys(partitions, False)
        self.forgotten: set[TopicIdPartition] = set()
        self.routes: dict[TopicIdPartition, Any] = {}
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.last_used = now
        self.watch: RecordsWatch | None = None
        self.watch_caller: object = None

    def undo_advance(self, epoch: int) -> None:
        """Expects this epoch again, unless another request arrived since."""
        if self.epoch == next_epoch(epoch):
            self.epoch = epoch

    def end_watch(self) -> None:
        """Ends the watch; the next request fetches."""
        if self.watch is not None:
            self.watch.end()
            self.watch = None

    def change(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        """Adds and removes partitions; removes one that is in both."""
        for partition in added:
            self.partitions.setdefault(partition, True)
        for partition in forgotten:
            if self.partitions.pop(partition, None) is not None:
                self.forgotten.add(partition)
                self.routes.pop(partition, None)

    def in_turn(self, epoch: int) -> list[TopicIdPartition]:
        """The partitions in the order of service for a request's epoch: each comes first in its turn."""
        partitions = list(self.partitions)
        start = epoch % len(partitions) if partitions else 0
        return partitions[start:] + partitions[:start]

    def known_errors(self) -> set[TopicIdPartition]:
        """Partitions that are new or had an error in the last response: an error there is not new."""
        return {partition for partition, due in self.partitions.items() if due}

    def reports(self, partition: TopicIdPartition, result: AcquireResult | None) -> bool:
        """Whether an incremental response includes the partition; stores what it reports.

        It includes an error, and the first result after an error. A partition with records moves to the end
        of the order.
        """
        has_records = result is not None and bool(result.acquired)
        failed = result is not None and bool(result.error_code)
        due = self.partitions.get(partition)
        if due is None:  # the partition was forgotten during the fetch
            return has_records or failed
        if has_records:
            del self.partitions[partition]
        self.partitions[partition] = failed
        return has_records or due or failed


class SessionCache:
    """The share sessions of a process; at most `limit` of them (Kafka: group.share.max.share.sessions).

    A full cache rejects new sessions and evicts none. `name` is unique to this process. `expired` and
    `disconnected` count the evicted sessions by reason.
    """

    __slots__ = ("_by_connection", "_ids", "_limit", "_sessions", "disconnected", "expired")

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._ids = (f"{name}-{number}" for number in count(1))
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[str, set[SessionKey]] = {}
        self.disconnected = 0
        self.expired = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(
        self, key: SessionKey, connection: str, partitions: Iterable[TopicIdPartition], now: float
    ) -> ShareSession:
        """Opens a session in place of the member's earlier one, whose records stay acquired.

        Raises SHARE_SESSION_LIMIT_REACHED; the earlier session is closed then too.
        """
        before = self._remove(key) if key in self._sessions else None
        if len(self._sessions) >= self._limit:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"This gateway has {self._limit} share sessions, its limit.",
                metadata={"group.share.max.share.sessions": str(self._limit)},
            )
        session = ShareSession(key, before.id if before else next(self._ids), connection, partitions, now)
        if before is not None:
            session.forgotten = before.forgotten.union(before.partitions)
        self._sessions[key] = session
        self._by_connection.setdefault(connection, set()).add(key)
        return session

    def advance(self, key: SessionKey, epoch: int, now: float) -> ShareSession:
        """Returns the session, which expects the following epoch from now on.

        Raises SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self.find(key)
        if session.epoch != epoch:
            raise invalid_epoch(session, epoch)
        self.use(session, now)
        return session

    def use(self, session: ShareSession, now: float) -> None:
        """Advances the epoch after a request with the expected one."""
        session.epoch = next_epoch(session.epoch)
        session.last_used = now

    def check(self, key: SessionKey) -> None:
        """Raises INVALID_REQUEST for an invalid group id or member id.

        The key of a session was checked by the request that opened it.
        """
        if key not in self._sessions:
            check_member(key.group_id, key.member_id)

    def get(self, key: SessionKey) -> ShareSession | None:
        """The session, or None."""
        return self._sessions.get(key)

    def find(self, key: SessionKey) -> ShareSession:
        """The session. Raises SHARE_SESSION_NOT_FOUND."""
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_NOT_FOUND,
                f"Member {key.member_id} of group {key.group_id} has no share session here.",
                metadata={"group_id": key.group_id, "member_id": key.member_id},
            )
        return session

    def is_current(self, context: FetchContext) -> bool:
        """Whether the session of a request is open and has had no later request."""
        session = context.session
        return self._sessions.get(session.key) is session and session.epoch == next_epoch(context.epoch)

    def close(self, session: ShareSession) -> bool:
        """Removes the session; False if it was replaced or removed before."""
        if self._sessions.get(session.key) is not session:
            return False
        self._remove(session.key)
        return True

    def disconnect(self, connection: str) -> list[ShareSession]:
        """Removes and returns the sessions that the connection opened and still owns."""
        keys = sorted(self._by_connection.get(connection, ()))
        self.disconnected += len(keys)
        return [self._remove(key) for key in keys]

    def expire(self, before: float) -> list[ShareSession]:
        """Removes and returns the sessions that were last used before `before`."""
        idle = [session for session in self._sessions.values() if session.last_used < before]
        self.expired += len(idle)
        return [self._remove(session.key) for session in idle]

    def _remove(self, key: SessionKey) -> ShareSession:
        session = self._sessions.pop(key)
        session.end_watch()
        keys = self._by_connection[session.connection]
        keys.discard(key)
        if not keys:
            del self._by_connection[session.connection]
        return session


def invalid_epoch(session: ShareSession, epoch: int) -> KafkaError:
    """INVALID_SHARE_SESSION_EPOCH for a request with `epoch`."""
    return KafkaError(
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        f"The share session is at epoch {session.epoch}, the request at {epoch}.",
        metadata={"expected_epoch": str(session.epoch), "epoch": str(epoch)},
    )


class FetchContext(NamedTuple):
    """A request within its session; `partitions` are to be fetched in this order."""

    session: ShareSession
    epoch: int
    partitions: Sequence[TopicIdPartition] = ()

    @property
    def final(self) -> bool:
        """Whether the session ends with this request."""
        return self.epoch == FINAL_EPOCH

    def check_turn(self) -> None:
        """Raises INVALID_SHARE_SESSION_EPOCH if a later request overtook this one."""
        if self.session.epoch != next_epoch(self.epoch):
            raise invalid_epoch(self.session, self.epoch)

    def reported(self, results: Mapping[TopicIdPartition, AcquireResult]) -> list[TopicIdPartition]:
        """The partitions to include in the response; the opening request includes all.

        Raises INVALID_SHARE_SESSION_EPOCH as `check_turn`; the records stay acquired.
        """
        if self.final:
            return []
        self.check_turn()
        return [
            partition
            for partition in self.partitions
            if self.session.reports(partition, results.get(partition)) or self.epoch == INITIAL_EPOCH
        ]


def begin_fetch(
    cache: SessionCache,
    key: SessionKey,
    epoch: int,
    connection: str,
    acks: Mapping[TopicIdPartition, Sequence[AckBatch]],
    forgotten: Iterable[TopicIdPartition],
    now: float,
) -> FetchContext:
    """Opens, advances or finds the session of a ShareFetch; `acks` has every partition of the request.

    Raises INVALID_REQUEST (acknowledgements in the opening request), SHARE_SESSION_LIMIT_REACHED,
    SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
    """
    if epoch == FINAL_EPOCH:
        return FetchContext(cache.find(key), FINAL_EPOCH)
    if epoch == INITIAL_EPOCH:
        if any(acks.values()):
            raise _acknowledges_at_open()
        session = cache.open(key, connection, acks, now)
    else:
        session = cache.advance(key, epoch, now)
        session.change(acks, forgotten)
    return FetchContext(session, epoch, session.in_turn(epoch))


def begin_acknowledge(cache: SessionCache, key: SessionKey, epoch: int, now: float) -> FetchContext:
    """Advances or finds the session of a ShareAcknowledge, which fetches nothing.

    Raises SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH (always for epoch 0).
    """
    if epoch == FINAL_EPOCH:
        return FetchContext(cache.find(key), FINAL_EPOCH)
    if epoch == INITIAL_EPOCH:
        raise KafkaError(
            ErrorCode.INVALID_SHARE_SESSION_EPOCH, "An acknowledgement cannot open a share session (epoch 0)."
        )
    return FetchContext(cache.advance(key, epoch, now), epoch)


_FETCH_ERRORS = frozenset(
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
    """The error code of a partition in a fetch response: Kafka's client throws on codes it does not expect.

    Other errors become OFFSET_NOT_AVAILABLE, which the client retries.
    """
    return error if error in _FETCH_ERRORS else ErrorCode.OFFSET_NOT_AVAILABLE


def _acknowledges_at_open() -> KafkaError:
    message = "A request that opens a share session (epoch 0) cannot carry acknowledgements."
    return invalid_field("topics.partitions.acknowledgement_batches", message)
