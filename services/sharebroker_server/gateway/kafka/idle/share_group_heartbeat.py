"""Caches the response to the ShareGroupHeartbeat that a member repeats."""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from sharebroker_server.gateway.kafka.dispatch.call import Call, Dispatch, Reply
from sharebroker_server.gateway.kafka.idle.response_cache import CachedResponse, Prediction
from sharebroker_server.kafka_wire.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

HEARTBEAT: Final = 76


class CachedHeartbeat(CachedResponse):
    """The response to a heartbeat that equals the previous one, which did not change the member's epoch.

    The coordinator, if it runs in this process, confirms that nothing in the group changed.
    """

    __slots__ = ()

    @override
    def _accepts(self, data: bytes) -> bool:
        return self._template.matches(data)

    @override
    def _is_current(self) -> bool:
        call = self._call
        request = call.request
        return call.listener.brokers.unchanged(call.view) and call.gateway.router.stays(
            request.group_id, request.member_id, request.member_epoch
        )


def predict_heartbeat(
    call: Call[ShareGroupHeartbeatRequest],
    response: ShareGroupHeartbeatResponse,
    reply: Reply,
    dispatch: Dispatch,
) -> CachedHeartbeat | None:
    """Returns the prediction of the next heartbeat if this one did not change the member's epoch."""
    epoch = call.request.member_epoch
    if epoch <= 0 or response.member_epoch != epoch:
        return None
    return CachedHeartbeat(call, Prediction(HEARTBEAT, response), reply, dispatch)
