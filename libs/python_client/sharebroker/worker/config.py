"""Settings of a worker, and the exceptions that its handler raises."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sharebroker.client_errors import check_settings
from sharebroker.consumer.config import ConsumerConfig
from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.records.record import MAX_DELAY, Record, check_delay

Handler = Callable[[Record], Awaitable[Any] | Any]


class Reject(Exception):
    """Raised by a handler: the record cannot be processed and must not be delivered again.

    The leader logs `reason`, which may be an exception, and lists it with the failed record.
    """

    def __init__(self, reason: object = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Retry(Exception):
    """Raised by a handler: the record is released and delivered again after `delay` seconds.

    Without a delay the worker's backoff applies. With `blameless` the delivery does not count. If it was the
    last delivery, the reason is listed with the failed record. Raises ValueError for a delay below 0 or above
    a day.
    """

    def __init__(self, delay: float | None = None, reason: str = "", *, blameless: bool = False) -> None:
        check_delay(delay)
        super().__init__(reason)
        self.delay = delay
        self.reason = reason
        self.blameless = blameless


def release_delay(record: Record) -> float:
    """Returns the seconds of the delay with which a record was released; 0 without one."""
    return ((record.acknowledgement and record.acknowledgement.delay_ms) or 0) / 1000


def describe_release(record: Record) -> str:
    """Returns that a record was released, with its delay, as text."""
    if record.acknowledgement is None or record.acknowledgement.delay_ms is None:
        return "released, delay of the group"
    return f"released, delay {release_delay(record):g} s"


class MaxFailuresError(Exception):
    """`Worker.run` stopped after `max_failures` consecutive failures; the cause is the last of them."""

    def __init__(self, failures: int) -> None:
        super().__init__(f"Stopped after {failures} consecutive failures.")
        self.failures = failures


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Settings of a worker; times are in seconds.

    The hooks run in the worker's event loop, between records: they must not block. A hook may be a coroutine
    function. Exceptions of hooks are logged. Raises KafkaError INVALID_CONFIG for values out of range.
    """

    concurrency: int = 1
    """The number of records that are handled at a time, and of threads if the handler is not a coroutine
    function."""
    backoff: float | None = 1.0
    """The delay before a record is delivered again after its first failure; None: the group's retry backoff
    (`share.retry.backoff.ms`), which `idle_timeout` does not wait for."""
    backoff_multiplier: float = 2.0
    """The factor by which the delay grows with each delivery; 1 keeps it constant."""
    backoff_max: float = 100.0
    """The longest such delay."""
    max_failures: int = 0
    """`run` stops with MaxFailuresError after so many consecutive failures; 0 disables this limit."""
    idle_timeout: float | None = None
    """`run` returns after so many seconds without a record to handle or to retry; None: never."""
    graceful_shutdown_timeout: float | None = 20.0
    """The time that running handlers have to finish once the worker stops; None: no limit."""
    dead_letter_topic: str | None = None
    """A dead letter topic that `run` gives to the group, with copies of the records; it is created unless it
    exists. This needs rights to alter topic and group. None: the group keeps its settings."""
    handle_signals: bool = True
    """Whether SIGINT and SIGTERM stop the worker, if it runs in the main thread."""
    consumer: ConsumerConfig = field(default_factory=ConsumerConfig)
    """Settings of the worker's consumer, such as `lock_ms`. The worker sets acknowledgement and acquire mode,
    `auto_renew`, `max_poll_records`, `prefetch_records` and `deserializer` itself."""
    on_start: Callable[[Record], Any] | None = None
    """Runs before the handler."""
    on_success: Callable[[Record], Any] | None = None
    """Runs once the record is accepted and that is durable."""
    on_failure: Callable[[Record, Exception], Any] | None = None
    """Runs once the record is rejected (the exception is a Reject) or released (any other exception)."""
    on_lock_lost: Callable[[Record], Any] | None = None
    """Runs when the lock of a record is lost while its handler runs: another member may receive it."""
    on_unconfirmed: Callable[[Record, KafkaError], Any] | None = None
    """Runs if the server did not confirm the acknowledgement: the record may be delivered again."""

    def __post_init__(self) -> None:
        minimum = {name: least for name, least in _MINIMUM.items() if getattr(self, name) is not None}
        check_settings(self, minimum, {})
        if self.backoff_max > MAX_DELAY:
            text = f"must be at most {MAX_DELAY:.0f}, not {self.backoff_max}"
            violations = [FieldViolation("backoff_max", text)]
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"backoff_max {text}", violations=violations)

    def delay(self, delivery_count: int) -> float | None:
        """Returns the seconds until the next delivery of a record that failed in this delivery (from 1).

        None: the group decides.
        """
        if self.backoff is None:
            return None
        return exponential_backoff(self.backoff, self.backoff_multiplier, self.backoff_max, delivery_count)

    def for_consumer(self) -> ConsumerConfig:
        """Returns the consumer's settings: it holds at most `concurrency` records ahead."""
        return replace(
            self.consumer,
            share_acknowledgement_mode="explicit",
            share_acquire_mode="record_limit",
            max_poll_records=self.concurrency,
            prefetch_records=self.concurrency,
            auto_renew=True,
            deserializer=None,
        )


def exponential_backoff(first: float, multiplier: float, longest: float, attempt: int) -> float:
    """Returns `first` x `multiplier` to the power of (`attempt` - 1), at most `longest`."""
    try:
        return min(longest, first * multiplier ** (attempt - 1))
    except OverflowError:
        return longest


_MINIMUM: Mapping[str, int] = {
    "concurrency": 1,
    "backoff": 0,
    "backoff_multiplier": 1,
    "backoff_max": 0,
    "max_failures": 0,
    "idle_timeout": 0,
    "graceful_shutdown_timeout": 0,
}
