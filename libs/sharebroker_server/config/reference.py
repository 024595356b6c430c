"""Prints docs/configuration.md: `python -m sharebroker_server.config.reference > docs/configuration.md`.

Every broker, group and topic property with its type, default, bounds and meaning, as `BROKER_KEYS`,
`GROUP_KEYS` and `TOPIC_KEYS` declare them. Pure.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sharebroker_server.config.broker import BROKER_KEYS
from sharebroker_server.config.group import GROUP_KEYS
from sharebroker_server.config.keys import INT_MAX, LONG_MAX, Key, Value, ValueType, render
from sharebroker_server.config.topic import TOPIC_KEYS

_HEAD: Final = """\
# Configuration

This file is generated from the property tables in code. Do not edit it;
run `python -m sharebroker_server.config.reference > docs/configuration.md`.

Names, types and defaults are Kafka's unless the meaning states otherwise. Times are in milliseconds unless
the name ends otherwise, sizes in bytes. `2^31-1` and `2^63-1` stand for the largest int and long.

| Level | Set it with | Read it with |
|---|---|---|
| broker, at start | `sharebroker serve --set NAME=VALUE` (repeatable); chart: `settings` | `sharebroker serve --print-config` |
| broker, while running (only *dynamic* properties) | `kafka-configs.sh --entity-type brokers`, `AdminService/IncrementalAlterConfigs` | `kafka-configs.sh --describe`, `DescribeConfigs` |
| group | `sharebroker groups config GROUP --set NAME=VALUE`, `kafka-configs.sh --entity-type groups` | `sharebroker groups config GROUP` |
| topic | `sharebroker topics create -c NAME=VALUE`, `sharebroker topics alter`, `kafka-configs.sh --entity-type topics` | `sharebroker topics describe TOPIC` |

A group or topic property that is not set takes the broker property in the column *Broker default*.
"""  # noqa: E501 - a table row cannot be wrapped

_SECTIONS: Final = (
    ("Broker properties", "A dynamic property can be changed while brokers run.", BROKER_KEYS),
    (
        "Group properties",
        "The broker properties in the column *Bounds* limit what a group may set; a stored value outside "
        "them is clamped.",
        GROUP_KEYS,
    ),
    ("Topic properties", "", TOPIC_KEYS),
)


def document() -> str:
    """Returns the whole of docs/configuration.md."""
    parts = [_HEAD]
    for title, text, keys in _SECTIONS:
        effective = [key for key in keys.values() if key.honoured]
        parts.append("\n".join([f"\n## {title}\n", *([f"{text}\n"] if text else []), *_table(effective)]))
    parts.append("\n" + "\n".join(_ignored()))
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def _table(keys: Iterable[Key]) -> Iterator[str]:
    keys = list(keys)
    inherits = any(key.broker for key in keys)
    last = "Broker default" if inherits else "Dynamic"
    yield f"| Property | Type | Default | Bounds | {last} | Meaning |"
    yield "|---|---|---|---|---|---|"
    for key in keys:
        extra = (f"`{key.broker}`" if key.broker else "–") if inherits else ("yes" if key.dynamic else "no")
        cells = (
            f"`{key.name}`",
            key.type.name.lower(),
            _value(key.default),
            _bounds(key),
            extra,
            _cell(key.doc),
        )
        yield f"| {' | '.join(cells)} |"


def _ignored() -> Iterator[str]:
    yield "## Accepted without effect\n"
    yield "Kafka's tools and frameworks set these properties. They are validated, stored and shown, and"
    yield "change nothing.\n"
    yield "| Property | Level | Type | Default | Bounds |"
    yield "|---|---|---|---|---|"
    levels: tuple[tuple[str, Mapping[str, Key]], ...] = (("broker", BROKER_KEYS), ("topic", TOPIC_KEYS))
    for level, keys in levels:
        for key in keys.values():
            if not key.honoured:
                kind = key.type.name.lower()
                yield f"| `{key.name}` | {level} | {kind} | {_value(key.default)} | {_bounds(key)} |"


def _value(value: Value) -> str:
    text = render(value)
    return f"`{_NAMED.get(text, text)}`" if text else "empty"


def _bounds(key: Key) -> str:
    if key.at_least:
        return f"`{key.at_least}` to `{key.at_most}`"
    if key.type in (ValueType.INT, ValueType.LONG, ValueType.DOUBLE):
        if key.at_most:
            return f"{key.low} to `{key.at_most}`"
        low, high = (_NAMED.get(str(bound), str(bound)) for bound in (key.low, key.high))
        return f"{low} to {high}"
    if key.type is ValueType.BOOLEAN:
        return "true, false"
    return ", ".join(f"`{choice}`" for choice in key.choices) or "text"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_NAMED: Final = {str(INT_MAX): "2^31-1", str(LONG_MAX): "2^63-1"}


if __name__ == "__main__":
    sys.stdout.write(document())
