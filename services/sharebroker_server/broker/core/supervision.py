"""Rules of a supervisor: when the brokers of one command start, restart and stop.

Theory of operation. Each broker starts, serves and exits. While the command serves, a broker that exits is
started again after a pause. The pause doubles while the broker fails: while it exits before it served for
`STABLE_SECONDS`. After `MOST_FAILURES` failures in succession, all brokers stop, and the command ends with
an error. The same happens at once if the configuration is invalid. A broker reports that by its exit code,
which counts only before the command has served.

All brokers stop in waves. The upper half of them stops first and hands its leases to the others, then the
upper half of these, until the last one stops. Brokers that have not ended at `STOP_SECONDS`, or at a second
signal, are killed.

The caller reports events with the current time, performs the returned actions in their order, and calls
`on_time` at `deadline`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

SHORTEST_PAUSE: Final = 0.1
"""Seconds before a broker is started again after its first failure; twice as many after each further one."""

STABLE_SECONDS: Final = 10.0
"""Seconds that a broker serves from which on its exit is no failure in succession."""

MOST_FAILURES: Final = 8
"""Failures of a broker in succession that end the command."""

STOP_SECONDS: Final = 25.0
"""Seconds to stop all brokers, after which the rest is killed: less than the 30 of Kubernetes."""

INVALID: Final = 2
"""The exit code of a broker that cannot start with its configuration."""


class BrokerAction(Enum):
    """What the caller does to a broker, or, with NO_BROKER, to all."""

    START = auto()
    TERMINATE = auto()
    KILL = auto()
    REPORT = auto()
    """Reports that all brokers serve, for the first time."""


NO_BROKER: Final = -1

Step = tuple[BrokerAction, int]
"""An action and the index of its broker."""


class CommandEnd(NamedTuple):
    """How the command ends: its exit code, and the reason of a failure."""

    code: int
    reason: str = ""


class _State(Enum):
    STARTING = auto()
    SERVING = auto()
    PAUSED = auto()
    """It has exited, and is started again at its time."""
    STOPPING = auto()
    ENDED = auto()


_RUNNING: Final = frozenset({_State.STARTING, _State.SERVING, _State.STOPPING})


@dataclass(slots=True)
class _SupervisedBroker:
    state: _State = _State.PAUSED
    at: float = 0.0
    """When it began to serve, or when it is started again."""
    failures: int = 0
    restarts: int = 0


class Supervision:
    """The state of `count` brokers, which are named by their index."""

    def __init__(self, count: int) -> None:
        self._brokers = [_SupervisedBroker() for _ in range(count)]
        self._outcome: CommandEnd | None = None
        self._has_served = False
        self._kill_at: float | None = None

    @property
    def outcome(self) -> CommandEnd | None:
        """How the command ends, once every broker has ended; else None."""
        running = any(broker.state is not _State.ENDED for broker in self._brokers)
        return None if running else self._outcome

    @property
    def ending(self) -> CommandEnd | None:
        """How the command ends, from the first stop of a broker on; else None."""
        return self._outcome

    @property
    def deadline(self) -> float | None:
        """The time at which `on_time` is due; None if only an event can change anything."""
        pauses = [broker.at for broker in self._brokers if broker.state is _State.PAUSED]
        return min([*pauses, *([] if self._kill_at is None else [self._kill_at])], default=None)

    @property
    def absent(self) -> list[int]:
        """The brokers that do not serve."""
        return [index for index, broker in enumerate(self._brokers) if broker.state is not _State.SERVING]

    @property
    def restarts(self) -> list[int]:
        """How often each broker was started again."""
        return [broker.restarts for broker in self._brokers]

    def begin(self) -> list[Step]:
        """Starts all brokers."""
        return [self._start(index) for index in range(len(self._brokers))]

    def on_serving(self, index: int, now: float) -> list[Step]:
        """Notes that a broker serves."""
        broker = self._brokers[index]
        if broker.state is not _State.STARTING:
            return []
        broker.state, broker.at = _State.SERVING, now
        if self._has_served or self.absent:
            return []
        self._has_served = True
        return [(BrokerAction.REPORT, NO_BROKER)]

    def on_exit(self, index: int, code: int, reason: str, now: float) -> list[Step]:
        """Notes that a broker has exited: schedules its restart, or stops the others."""
        broker = self._brokers[index]
        if self._outcome is not None:
            broker.state = _State.ENDED
            return self._stop_more()
        if broker.state is _State.SERVING and now - broker.at >= STABLE_SECONDS:
            broker.failures = 0
        broker.failures += 1
        broker.state, broker.at = _State.PAUSED, now + pause_after(broker.failures)
        if code == INVALID and not self._has_served:
            return self._stop(CommandEnd(INVALID, reason), now)
        if broker.failures >= MOST_FAILURES:
            return self._stop(CommandEnd(1, f"Broker {index} failed {MOST_FAILURES} times: {reason}"), now)
        return []

    def on_signal(self, now: float) -> list[Step]:
        """Stops all brokers at the first signal, and kills them at further ones."""
        return self._stop(CommandEnd(0), now) if self._outcome is None else self._kill()

    def on_time(self, now: float) -> list[Step]:
        """Starts brokers whose pause has ended; kills those that do not stop in time."""
        if self._kill_at is not None:
            return self._kill() if now >= self._kill_at else []
        return [
            self._start(index, restarts=1)
            for index, broker in enumerate(self._brokers)
            if broker.state is _State.PAUSED and now >= broker.at
        ]

    def _start(self, index: int, restarts: int = 0) -> Step:
        self._brokers[index].state = _State.STARTING
        self._brokers[index].restarts += restarts
        return BrokerAction.START, index

    def _stop(self, outcome: CommandEnd, now: float) -> list[Step]:
        self._outcome, self._kill_at = outcome, now + STOP_SECONDS
        for index in self._in(_State.PAUSED):
            self._brokers[index].state = _State.ENDED
        return self._stop_more()

    def _stop_more(self) -> list[Step]:
        """Begins the next wave once the former one has ended. Brokers that do not serve stop in the first."""
        if self._in(_State.STOPPING):
            return []
        serving = self._in(_State.SERVING)
        wave = [*self._in(_State.STARTING), *serving[len(serving) // 2 :]]
        for index in wave:
            self._brokers[index].state = _State.STOPPING
        return [(BrokerAction.TERMINATE, index) for index in wave]

    def _kill(self) -> list[Step]:
        self._kill_at = None
        running = [index for state in _RUNNING for index in self._in(state)]
        for index in running:
            self._brokers[index].state = _State.STOPPING
        return [(BrokerAction.KILL, index) for index in sorted(running)]

    def _in(self, state: _State) -> list[int]:
        return [index for index, broker in enumerate(self._brokers) if broker.state is state]


def pause_after(failures: int) -> float:
    """Returns the seconds before a broker is started again after a number of failures in succession."""
    return SHORTEST_PAUSE * 2.0 ** (failures - 1)
