"""The ShareGroupHeartbeat that a member sends again and again."""

from __future__ import annotations

from typing import Final

from sharebroker_server.gateway.kafka.dispatch.call import Call, Say, Serve
from sharebroker_server.gateway.kafka.idle.response_cache import Next, Quiet
from sharebroker_server.kafka_wire.message_classes import Message

HEARTBEAT: Final = 76


class QuietHeartbeat(Quiet):
    """A heartbeat like the last one, which left its member's epoch as it was.

    Its coordinator, if it is this process, says that nothing else is to be done.
    """

    __slots__ = ()

    def _begins(self, data: bytes) -> bool:
        return self._pattern.fits(data)

    def _holds(self) -> bool:
        call = self._call
        request = call.request
        return call.door.brokers.unchanged(call.view) and call.gateway.router.stays(
            request.group_id, request.member_id, request.member_epoch
        )


def quiet_heartbeat(call: Call, answer: Message, say: Say, serve: Serve) -> QuietHeartbeat | None:
    """What follows a heartbeat of a member that stays, where it was told nothing new."""
    request = call.request
    stays = request.member_epoch > 0 and answer.member_epoch == request.member_epoch
    return QuietHeartbeat(call, Next(HEARTBEAT, answer), say, serve) if stays else None
