"""The classes of Kafka's requests and responses by name, such as `ShareFetchRequest`.

The structs inside a message are attributes of its class: `ShareFetchResponse.PartitionData`. Each class is
made when it is first imported. `messages.pyi`, which `generate.py` writes, declares them all for type
checkers.
"""

from __future__ import annotations

from sharebroker_server.kafka_wire.schema import Message, message_class, message_struct


def __getattr__(name: str) -> type[Message]:
    """Returns the class of a request or a response. Raises AttributeError for an unknown name."""
    try:
        made = message_class(message_struct(name))
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = made
    return made
