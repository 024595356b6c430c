"""What the chart's schema says of the server's properties and features: made of their declarations."""

from __future__ import annotations

import json
from typing import Any, Final

from libs.config.broker import BROKER_KEYS
from libs.config.keys import LONG_MAX, Key, ValueType
from services.gateway.kafka.features import SUPPORTED
from tests.deploy.chart import CHART

SCHEMA: Final = CHART / "values.schema.json"
OURS: Final = {"cluster.id", "node.id", "ssl.client.auth"}
"""What templates set: `clusterId`, a gateway's number, `tls.clientAuth`."""

_NUMBERS: Final = (ValueType.INT, ValueType.LONG)


def with_settings(text: str) -> str:
    """The schema with these parts as they have to be."""
    schema = json.loads(text)
    schema["$defs"]["settings"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _property(key) for name, key in BROKER_KEYS.items() if name not in OURS},
    }
    schema["properties"]["features"]["additionalProperties"] = False
    schema["properties"]["features"]["properties"] = {
        name: {"type": "integer", "minimum": lowest, "maximum": highest}
        for name, (lowest, highest) in SUPPORTED.items()
    }
    return json.dumps(schema, indent=2) + "\n"


def _property(key: Key) -> dict[str, Any]:
    if key.type in _NUMBERS:
        # Helm's numbers are floating, in which the highest long is a number that is no long.
        highest = {} if key.high == LONG_MAX else {"maximum": key.high}
        return {"type": ["integer", "string"], "pattern": "^-?[0-9]+$", "minimum": key.low, **highest}
    if key.type is ValueType.BOOLEAN:
        return {"enum": [True, False, "true", "false"]}
    return {"type": "string", **({"enum": list(key.choices)} if key.choices else {})}
