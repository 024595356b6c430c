"""The identity of a client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

USER: Final = "User"
"""The type of all principals (Kafka: `KafkaPrincipal.USER_TYPE`)."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client; its text is `User:name`, as in Kafka's ACLs.

    `owner` is the text under which it owns locks and sessions; "" for ANONYMOUS.
    """

    name: str
    type: str = USER
    owner: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        anonymous = (self.type, self.name) == (USER, "ANONYMOUS")
        object.__setattr__(self, "owner", "" if anonymous else str(self))

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("ANONYMOUS")
"""A client that did not authenticate (Kafka: `KafkaPrincipal.ANONYMOUS`)."""
