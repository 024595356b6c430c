"""Changes to properties that are lists (Kafka: `AlterConfigOp.OpType.APPEND` and `SUBTRACT`). Pure."""

from __future__ import annotations

from sharebroker_server.config.keys import Key, ValueType, invalid, split


def appended(key: Key, present: str, more: str) -> str:
    """The list with the parts of `more` that it does not have. Raises INVALID_CONFIG where it is no list."""
    parts = _parts(key, present, "append to")
    return ",".join(dict.fromkeys([*parts, *split(more)]))


def subtracted(key: Key, present: str, less: str) -> str:
    """The list without the parts of `less`. Raises INVALID_CONFIG where it is no list."""
    gone = split(less)
    return ",".join(part for part in _parts(key, present, "subtract from") if part not in gone)


def _parts(key: Key, present: str, what: str) -> list[str]:
    if key.type is not ValueType.LIST:
        raise invalid(key.name, f"Can't {what} {key.name}: it is not a list.")
    return split(present)
