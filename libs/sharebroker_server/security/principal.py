"""The identity of a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

USER: Final = "User"
"""The type of all principals (Kafka: `KafkaPrincipal.USER_TYPE`)."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client; its text is `User:name`, as in Kafka's ACLs."""

    name: str
    type: str = USER

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("ANONYMOUS")
"""A client that did not authenticate (Kafka: `KafkaPrincipal.ANONYMOUS`)."""


def owner_text(principal: Principal) -> str:
    """Returns the text of a principal that owns locks and sessions; "" for ANONYMOUS."""
    return "" if principal is ANONYMOUS or principal == ANONYMOUS else str(principal)
