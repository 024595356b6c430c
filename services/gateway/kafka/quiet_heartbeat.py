"""The ShareGroupHeartbeat that a member sends again and again: answered without being read or served."""

from __future__ import annotations

from typing import Final

from libs.kafka_wire.frames import codec, response_frame
from libs.kafka_wire.pattern import ANSWERED, CORRELATION, RequestPattern
from libs.kafka_wire.shapes import Message
from services.gateway.kafka.call import Call, Say, Serve

HEARTBEAT: Final = 76


class QuietHeartbeat:
    """A heartbeat like the last one, which left its member's epoch as it was (see Expected).

    It never waits: its coordinator, if it is this process, says at once that nothing else is to be done.
    """

    __slots__ = ("_answer", "_call", "_pattern", "_say")

    waiting: Final = False

    def __init__(self, call: Call, answer: Message, say: Say) -> None:
        how = codec(HEARTBEAT, call.version)
        self._call = call
        self._say = say
        self._pattern = RequestPattern(how, call.client_id, call.request)
        self._answer = response_frame(0, how, answer)

    def take(self, data: bytes) -> bool:
        """See Expected."""
        if not self._pattern.fits(data) or not self._stays():
            return False
        self._call.door.counts.quiet[HEARTBEAT] += 1
        self._answer[ANSWERED] = data[CORRELATION]
        self._say(self._answer[:])
        return True

    def give_up(self) -> None:
        """See Expected; nothing waits."""

    def drop(self) -> None:
        """See Expected; nothing waits."""

    def _stays(self) -> bool:
        call = self._call
        request = call.request
        return call.door.brokers.unchanged(call.view) and call.gateway.stays(
            request.group_id, request.member_id, request.member_epoch
        )


def quiet_heartbeat(call: Call, answer: Message, say: Say, _: Serve) -> QuietHeartbeat | None:
    """What follows a heartbeat of a member that stays, where it was told nothing new."""
    request = call.request
    stays = request.member_epoch > 0 and answer.member_epoch == request.member_epoch
    return QuietHeartbeat(call, answer, say) if stays else None
