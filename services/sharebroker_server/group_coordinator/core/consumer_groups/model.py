"""The states of a consumer group, and its members."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sharebroker_server.group_coordinator.core.consumer_groups.commands import Protocols


class State(Enum):
    """Kafka's ClassicGroupState; a group in state Dead does not exist here."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Consumer:
    """A member; times are seconds. `joining` and `syncing` are ids of deferred replies."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: Protocols
    assignment: bytes = b""
    joining: int | None = None
    syncing: int | None = None

    @property
    def waits(self) -> bool:
        """Whether the member waits for a deferred reply."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str) -> bytes:
        """Returns what the member states to an assignor about itself."""
        return dict(self.protocols).get(protocol, b"")
