"""Share sessions (Kafka: ShareSessionCache, ShareSession): who fetches which partitions, at which epoch.

A session belongs to (group, member) and to the connection that opened it. Requests carry its epoch: 0 opens,
n must be the one the session expects, -1 closes. May not know: leaders, records, waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.share_calls.values import Watch

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """The epoch that follows: -1 stays, the largest int32 wraps to 1, since 0 would open a session."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _LAST_EPOCH else epoch + 1


class Session:
    """A member's share session.

    `partitions` keeps the order of insertion; its values say whether the next answer must include the
    partition although it has nothing new (Kafka: requiresUpdateInResponse). `watch` stands by them while
    they have no records, for requests that come as `watched_for` did. `left` are those that were forgotten:
    the member may hold records of them still. Leaders know by its `id` what it acquired, and release that
    at its end: by then the member may have acquired others, through another gateway or in another session.
    """

    __slots__ = (
        "connection",
        "epoch",
        "id",
        "key",
        "last_used",
        "left",
        "partitions",
        "watch",
        "watched_for",
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
        self.left: set[TopicIdPartition] = set()
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.last_used = now
        self.watch: Watch | None = None
        self.watched_for: object = None

    def take_back(self, epoch: int) -> None:
        """A request at this epoch is served after all: expect it again, unless another came meanwhile."""
        if self.epoch == next_epoch(epoch):
            self.epoch = epoch

    def end_watch(self) -> None:
        """From here on the partitions have to be asked."""
        if self.watch is not None:
            self.watch.end()
            self.watch = None

    def change(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        """Take partitions in and out; one that is in both goes."""
        for partition in added:
            self.partitions.setdefault(partition, True)
        for partition in forgotten:
            if self.partitions.pop(partition, None) is not None:
                self.left.add(partition)

    def in_turn(self, epoch: int) -> list[TopicIdPartition]:
        """The partitions in the order to serve them at a request's epoch: each comes first in its turn."""
        partitions = list(self.partitions)
        start = epoch % len(partitions) if partitions else 0
        return partitions[start:] + partitions[:start]

    def told(self) -> set[TopicIdPartition]:
        """Partitions of which an error is no news: the last answer had one, or they are new."""
        return {partition for partition, due in self.partitions.items() if due}

    def reports(self, partition: TopicIdPartition, error: ErrorCode, *, has_records: bool) -> bool:
        """Whether an incremental answer includes the partition; remembers what it told.

        A partition that gave records goes to the end of the order. An error is always told, and so is the
        first answer without it.
        """
        told = self.partitions.get(partition)
        if told is None:  # forgotten while the fetch ran
            return has_records or error is not ErrorCode.NONE
        if has_records:
            del self.partitions[partition]
        self.partitions[partition] = error is not ErrorCode.NONE
        return has_records or told or error is not ErrorCode.NONE


class SessionCache:
    """The share sessions of a process; at most `limit` of them.

    `limit` is Kafka's `group.share.max.share.sessions`. Nothing is evicted to make room. `name` is of this
    process alone. So many sessions have `expired`, or went with a connection that was `disconnected`.
    """

    __slots__ = ("_by_connection", "_ids", "_limit", "_sessions", "disconnected", "expired")

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._ids = (f"{name}-{number}" for number in count(1))
        self._sessions: dict[SessionKey, Session] = {}
        self._by_connection: dict[str, set[SessionKey]] = {}
        self.disconnected = 0
        self.expired = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """Partitions of all sessions together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(
        self, key: SessionKey, connection: str, partitions: Sequence[TopicIdPartition], now: float
    ) -> Session:
        """A new session in place of the member's earlier one, whose records stay locked and are its own.

        Raises SHARE_SESSION_LIMIT_REACHED; the earlier one is gone then too.
        """
        before = self._remove(key) if key in self._sessions else None
        if len(self._sessions) >= self._limit:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"This gateway holds {self._limit} share sessions, as many as it may.",
                metadata={"group.share.max.share.sessions": str(self._limit)},
            )
        session = Session(key, before.id if before else next(self._ids), connection, partitions, now)
        if before is not None:
            session.left = before.left.union(before.partitions)
        self._sessions[key] = session
        self._by_connection.setdefault(connection, set()).add(key)
        return session

    def advance(self, key: SessionKey, epoch: int, now: float) -> Session:
        """The session, expecting the next epoch from here on.

        Raises SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self.find(key)
        if session.epoch != epoch:
            raise epoch_refused(session, epoch)
        self.use(session, now)
        return session

    def use(self, session: Session, now: float) -> None:
        """A request of the session has come, with the epoch that it expected."""
        session.epoch = next_epoch(session.epoch)
        session.last_used = now

    def get(self, key: SessionKey) -> Session | None:
        """The session, if there is one."""
        return self._sessions.get(key)

    def find(self, key: SessionKey) -> Session:
        """The session as it is. Raises SHARE_SESSION_NOT_FOUND."""
        session = self.get(key)
        if session is None:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_NOT_FOUND,
                f"Member {key.member_id} of group {key.group_id} has no share session here.",
                metadata={"group_id": key.group_id, "member_id": key.member_id},
            )
        return session

    def close(self, session: Session) -> bool:
        """Remove the session; False when it was replaced or removed before."""
        if self._sessions.get(session.key) is not session:
            return False
        self._remove(session.key)
        return True

    def disconnect(self, connection: str) -> list[Session]:
        """Remove and return the sessions that the connection opened and still owns."""
        keys = sorted(self._by_connection.get(connection, ()))
        self.disconnected += len(keys)
        return [self._remove(key) for key in keys]

    def expire(self, before: float) -> list[Session]:
        """Remove and return the sessions not used since `before`: their connections count as gone."""
        stale = [session for session in self._sessions.values() if session.last_used < before]
        self.expired += len(stale)
        return [self._remove(session.key) for session in stale]

    def _remove(self, key: SessionKey) -> Session:
        session = self._sessions.pop(key)
        session.end_watch()
        keys = self._by_connection[session.connection]
        keys.discard(key)
        if not keys:
            del self._by_connection[session.connection]
        return session


def epoch_refused(session: Session, epoch: int) -> KafkaError:
    """INVALID_SHARE_SESSION_EPOCH for a request that came with `epoch`."""
    return KafkaError(
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        f"The share session is at epoch {session.epoch}, the request at {epoch}.",
        metadata={"expected_epoch": str(session.epoch), "epoch": str(epoch)},
    )
