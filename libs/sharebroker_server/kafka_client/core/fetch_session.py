"""Incremental fetch sessions (KIP-227), from the client's side.

A session belongs to one broker. The broker keeps the partitions of the session and their positions, so that a
request contains only what changed, and a response only partitions with news. Each request has the next epoch
of the session. After any doubt about what the broker has, the next request is a full one, which closes the
session and opens another.

Source: Kafka's `FetchSessionHandler` and `FetchMetadata`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError

Partition = tuple[str, int]
"""The id of a topic, or its name in versions without ids, and the number of a partition."""

_NO_SESSION: Final = 0
_FULL: Final = 0
"""The epoch of a full request, which opens a session."""

_LAST_EPOCH: Final = 2**31 - 1


class Position(NamedTuple):
    """Where to fetch a partition.

    `leader_epoch` is that of the leader as the client knows it, `last_fetched_epoch` that of the batch before
    `offset`; -1 for none.
    """

    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1


class SessionRequest(NamedTuple):
    """The part of a request that the session determines."""

    session_id: int
    session_epoch: int
    changed: Mapping[Partition, Position]
    forgotten: Sequence[Partition]

    @property
    def full(self) -> bool:
        """Whether the request has all partitions, and opens a session."""
        return self.session_epoch == _FULL


class FetchSession:
    """The session with one broker; one request at a time.

    Each `request` is followed by `responded` or `failed`.
    """

    __slots__ = ("_epoch", "_id", "_partitions")

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FULL
        self._partitions: dict[Partition, Position] = {}

    def request(self, wanted: Mapping[Partition, Position]) -> SessionRequest:
        """Returns what the next request contains, so that the session has the wanted partitions."""
        if self._epoch == _FULL:
            self._partitions = dict(wanted)
            return SessionRequest(self._id, self._epoch, dict(wanted), ())
        before = self._partitions
        changed = {
            partition: position for partition, position in wanted.items() if before.get(partition) != position
        }
        forgotten = [partition for partition in before if partition not in wanted]
        # The broker serves partitions in this order: those that changed follow the others.
        kept = {p: position for p, position in before.items() if p in wanted and p not in changed}
        self._partitions = kept | changed
        return SessionRequest(self._id, self._epoch, changed, forgotten)

    def responded(self, error_code: int, session_id: int, partitions: Collection[Partition]) -> None:
        """Applies a response with these partitions.

        Raises:
            KafkaError: the error of the response; INVALID_FETCH_SESSION_EPOCH if the response does not match
                the request. The next request is a full one.
        """
        try:
            self._check(error_code, partitions)
        except KafkaError:
            self.failed()
            if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = _NO_SESSION
            raise
        if session_id == _NO_SESSION:  # the broker has no room for a session, or closed it
            self._id, self._epoch = _NO_SESSION, _FULL
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def failed(self) -> None:
        """Notes that no response arrived: the next request closes the session and opens another."""
        self._epoch = _FULL

    def _check(self, error_code: int, partitions: Collection[Partition]) -> None:
        if error_code:
            raise KafkaError(ErrorCode(error_code))
        unknown = [partition for partition in partitions if partition not in self._partitions]
        if unknown or (self._epoch == _FULL and len(set(partitions)) < len(self._partitions)):
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"The response has {len(partitions)} of {len(self._partitions)} partitions of the session, "
                f"and {len(unknown)} others.",
            )
