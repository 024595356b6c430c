"""Requirements on a deployment and on events; `make k8s` implements both differently from `make
chaos`.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from sharebroker_server.redis_link.keys import Keys


class Listeners(Protocol):
    """The addresses for clients."""

    def address(self, first: int = 0) -> str:
        """Returns the gRPC addresses of all gateways in one string, starting with the given one."""

    @property
    def kafka(self) -> str:
        """Returns the bootstrap address of Kafka clients."""

    @property
    def upstream(self) -> str:
        """Returns the bootstrap address of the Kafka cluster that has the records, or ""."""


class Deployed(Listeners, Protocol):
    """A running deployment and its Redis."""

    @property
    def redis_url(self) -> str:
        """Returns the Redis that holds the logs."""

    @property
    def keys(self) -> Keys:
        """Returns the names of its Redis keys."""


D_contra = TypeVar("D_contra", contravariant=True)


class Event(Protocol[D_contra]):
    """An event that hits a deployment and is healed. See tests.chaos.faults.Fault."""

    @property
    def kind(self) -> str:
        """Returns its name in reports."""

    @property
    def role(self) -> str:
        """Returns the role it hits, if any."""

    @property
    def stalls(self) -> bool:
        """Returns whether messages in flight may arrive later than usual."""

    @property
    def outlasts_work(self) -> bool:
        """Returns whether work can continue only after it is healed."""

    def lasts(self, lease: float) -> float:
        """Returns the seconds until it may be healed."""

    async def strike(self, on: D_contra) -> None:
        """Starts the event."""

    async def heal(self, on: D_contra) -> None:
        """Heals it."""
