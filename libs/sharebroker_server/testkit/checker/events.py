"""What a history consists of, as clients and logs saw it. Times are seconds of one observer's clock.

Clients see what they published, were given and asked for; whoever reads the logs adds what was written. A
model judges what it is told: a history without logs is judged by the rules that need none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from sharebroker.verification.rules import Evidence


class Share(NamedTuple):
    """A share-partition: a group's view of a partition of a topic."""

    group: str
    topic: str
    partition: int

    @property
    def log(self) -> tuple[str, int]:
        """The partition, whoever reads it."""
        return self.topic, self.partition


class Verdict(Enum):
    """What a member asks for a record that it holds."""

    ACCEPT = "accept"
    REJECT = "reject"
    RELEASE = "release"
    RENEW = "renew"
    UNSEEN = "unseen"
    """Given back without having been looked at: not counted as a delivery."""

    @property
    def final(self) -> bool:
        """Whether the record is finished with it."""
        return self in (Verdict.ACCEPT, Verdict.REJECT)


class Run(NamedTuple):
    """Offsets first..last in one stored state: 0 available, 2 acknowledged, 4 archived."""

    first: int
    last: int
    state: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was seen at a time."""

    at: float


@dataclass(frozen=True, slots=True)
class Happened(Event):
    """A fault, or whatever else makes the story readable; not judged."""

    what: str


@dataclass(frozen=True, slots=True)
class Published(Event):
    """A producer was told that its record is durable."""

    topic: str
    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Delivered(Event):
    """A member was given a record under a lock; `deadline` is on the clock of the leader.

    `streamed`: the lock ends with the member's stream, of which the member may hear after others have it.
    """

    share: Share
    offset: int
    value: str
    member: str
    token: int
    count: int
    deadline: float
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Asked(Event):
    """A member asks for something; `ask` names the question.

    `by_token`: of this acquisition. Else of whatever acquisition is its own by now, as Kafka's clients ask:
    it may be one that it never heard of.
    """

    ask: int
    share: Share
    offset: int
    token: int
    verdict: Verdict
    by_token: bool = True


@dataclass(frozen=True, slots=True)
class Applied(Event):
    """The answer: done and durable. A refusal is no event, as an earlier try may have had its way.

    `deadline` is the lock's new one after a renewal.
    """

    ask: int
    deadline: float = 0.0


@dataclass(frozen=True, slots=True)
class LockLost(Event):
    """A member was told that a lock of its has ended."""

    share: Share
    offset: int
    token: int


@dataclass(frozen=True, slots=True)
class Left(Event):
    """A member ends its session, or its connection broke: what it holds may be given to others."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class Reset(Event):
    """An administrator asks for another start offset, or has the state deleted: nobody works until Moved."""

    share: Share


@dataclass(frozen=True, slots=True)
class Moved(Event):
    """It is done: the group begins at `start`, -1: anew. What was finished behind it may come again."""

    share: Share
    start: int


@dataclass(frozen=True, slots=True)
class Forgotten(Event):
    """The log says that the state is deleted."""

    share: Share


@dataclass(frozen=True, slots=True)
class Appended(Event):
    """Positions first..last of a log were written under a lease's epoch."""

    log: str
    epoch: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Claimed(Event):
    """The lease of a log was taken: what carries an earlier epoch is to be refused from here on."""

    log: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Stored(Event):
    """A record of share state was written: the `whole` of it, or a change of it.

    In a change a state epoch, leader epoch or start offset of -1 stays as it was.
    """

    share: Share
    whole: bool
    state_epoch: int
    leader_epoch: int
    start: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class WriteBegan(Event):
    """A leader asks the keeper of the state for a write, under its epochs; `write` names the try."""

    write: int
    share: Share
    state_epoch: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class WriteEnded(Event):
    """It was told that the write is done. A refusal, or no answer, is no event."""

    write: int


@dataclass(frozen=True, slots=True)
class StateRead(Event):
    """The state as its keeper has it in memory, at a moment when nothing is being written."""

    share: Share
    start: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class LogsRead(Event):
    """What lies in the logs of a share-partition, at a moment when nothing is being written."""

    share: Share
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class LagTold(Event):
    """The system's count of unfinished records, at a moment when nothing is being written."""

    share: Share
    end: int
    lag: int


@dataclass(frozen=True, slots=True)
class CallBegan(Event):
    """A call that is to end by a time, with whatever answer."""

    call: int
    what: str
    deadline: float


@dataclass(frozen=True, slots=True)
class CallEnded(Event):
    """It did, and how."""

    call: int
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Counted(Event):
    """How many there were of something before the load, and are after it."""

    what: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Healed(Event):
    """The last fault is over; from here on somebody always asks for records."""


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """Nothing more will happen."""
