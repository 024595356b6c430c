"""What a run needs of a deployment and of what befalls it; `make k8s` has others than `make chaos`."""

from __future__ import annotations

from typing import Protocol, TypeVar

from sharebroker_server.redis_link.keys import Keys


class Listeners(Protocol):
    """Where clients go."""

    def address(self, first: int = 0) -> str:
        """Every gateway's gRPC address in one, one of them first."""

    @property
    def kafka(self) -> str:
        """Where Kafka clients begin."""


class Deployed(Listeners, Protocol):
    """Something that serves, and the Redis it stands on."""

    @property
    def redis_url(self) -> str:
        """Where the logs can be read along."""

    @property
    def keys(self) -> Keys:
        """What they are called there."""


D_contra = TypeVar("D_contra", contravariant=True)


class Event(Protocol[D_contra]):
    """Something that happens to a deployment, and is put right. See tests.chaos.faults.Fault."""

    @property
    def kind(self) -> str:
        """What, for people."""

    @property
    def role(self) -> str:
        """To whom, if to one."""

    @property
    def stalls(self) -> bool:
        """Whether what is on its way may come later than it would otherwise."""

    @property
    def outlasts_work(self) -> bool:
        """Whether work can only go on when it is put right."""

    def lasts(self, lease: float) -> float:
        """Seconds until it may be put right."""

    async def strike(self, on: D_contra) -> None:
        """Let it happen."""

    async def heal(self, on: D_contra) -> None:
        """Put it right."""
