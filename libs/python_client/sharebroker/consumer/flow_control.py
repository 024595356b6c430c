"""How many records to ask for: by the application's pace, and by whether it is there."""

from __future__ import annotations

from sharebroker.consumer.prefetch_window import PrefetchWindow


class FlowControl:
    """The application comes for records and goes away with some; meanwhile others may be on their way for it.

    `max_poll_records` and `prefetch_records` are the consumer's settings; `now` is a clock in seconds that
    only rises.
    """

    __slots__ = (
        "_asking",
        "_max_poll_records",
        "_polls",
        "_prefetch_records",
        "_went",
        "here",
        "prefetch_window",
    )

    def __init__(self, max_poll_records: int, prefetch_records: int) -> None:
        self._max_poll_records = max_poll_records
        self._prefetch_records = prefetch_records
        self._asking = self._polls = False
        self._went = 0.0
        self.here = False
        """Whether the application waits for records at this moment."""
        self.prefetch_window = PrefetchWindow(max_poll_records + prefetch_records)

    def come(self, now: float, *, poll: bool) -> None:
        """The application wants records; with `poll` a list of them."""
        self.prefetch_window.poll_started(now)
        self._polls = poll
        self._asking = self.here = True

    def go(self, now: float) -> None:
        """It has got what there was, and works."""
        self._went = now
        self.here = False

    def stop_prefetch(self) -> None:
        """Ask for no more before the application comes, unless it is here."""
        self._asking = self.here

    def stop_prefetch_after(self, seconds: float, now: float) -> bool:
        """`give_up` if it went so long ago; whether that made a difference."""
        was_asking = self._asking
        if now - self._went >= seconds:
            self.stop_prefetch()
        return was_asking and not self._asking

    @property
    def discards_late_records(self) -> bool:
        """Whether records that came too late for the last poll are not kept for the next."""
        return self._polls and not self.here and self._prefetch_records == 0

    def credit(self, held: int, on_the_way: int) -> int:
        """How many records more to ask for, when so many are held and asked for; below 0: to take back."""
        if not self.here and (self._polls or not self._asking):
            limit = self._prefetch_records if self._asking else 0
            if on_the_way > limit:
                return limit - on_the_way
        if not self._asking:
            return 0
        most = self.prefetch_window.window
        if self._polls:
            most = min(most, self._prefetch_records)
            if self.here:
                most = max(most, self._max_poll_records)
        return max(0, most - held - on_the_way)
