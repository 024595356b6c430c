"""Changes to properties that are lists (Kafka: `AlterConfigOp.OpType.APPEND` and `SUBTRACT`)."""

from __future__ import annotations

from sharebroker_server.config.keys import Key, ValueType, invalid, split


def appended(key: Key, present: str, added: str) -> str:
    """Returns the list with the missing items of `added`. Raises INVALID_CONFIG if the property
    is no list.
    """
    items = _items(key, present, "append to")
    return ",".join(dict.fromkeys([*items, *split(added)]))


def subtracted(key: Key, present: str, removed: str) -> str:
    """Returns the list without the items of `removed`. Raises INVALID_CONFIG if the property is no list."""
    removed_items = split(removed)
    return ",".join(item for item in _items(key, present, "subtract from") if item not in removed_items)


def _items(key: Key, present: str, what: str) -> list[str]:
    if key.type is not ValueType.LIST:
        raise invalid(key.name, f"Can't {what} {key.name}: it is not a list.")
    return split(present)
