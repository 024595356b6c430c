"""What the chart's schema says of the server's properties and features: made of their declarations."""

from __future__ import annotations

import json
from typing import Any, Final

from sharebroker_protocol.tracing.sampling import SAMPLERS
from sharebroker_protocol.tracing.settings import PROTOCOLS
from sharebroker_server.config.broker import BROKER_KEYS, ORDERED
from sharebroker_server.config.keys import LONG_MAX, Key, ValueType
from sharebroker_server.gateway.kafka.dispatch.features import SUPPORTED
from tests.deploy.chart import CHART

SCHEMA: Final = CHART / "values.schema.json"
ORDER: Final = CHART / "files" / "settings-order.yaml"
OURS: Final = {"cluster.id", "node.id", "ssl.client.auth"}
"""What templates set: `clusterId`, a gateway's number, `tls.clientAuth`."""

_WHOLE: Final = {"type": ["integer", "string"], "pattern": "^[0-9]*$"}
_ENDPOINT: Final = {"type": "string", "pattern": "^(https?://[^@/\\s]+(/\\S*)?)?$"}
TRACING: Final[dict[str, dict[str, Any]]] = {
    "OTEL_TRACES_EXPORTER": {"enum": ["", "otlp", "none"]},
    "OTEL_METRICS_EXPORTER": {"enum": ["", "otlp", "none"]},
    "OTEL_EXPORTER_OTLP_PROTOCOL": {"enum": ["", *PROTOCOLS]},
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": {"enum": ["", *PROTOCOLS]},
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": {"enum": ["", *PROTOCOLS]},
    "OTEL_EXPORTER_OTLP_ENDPOINT": _ENDPOINT,
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": _ENDPOINT,
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": _ENDPOINT,
    "OTEL_TRACES_SAMPLER": {"enum": ["", *SAMPLERS]},
    "OTEL_TRACES_SAMPLER_ARG": {
        "type": ["number", "string"],
        "pattern": "^(0?\\.[0-9]+|0|1(\\.0*)?|[0-9.]+[eE]-[0-9]+)?$",
        "minimum": 0,
        "maximum": 1,
    },
    "OTEL_METRIC_EXPORT_INTERVAL": {**_WHOLE, "minimum": 100, "maximum": 86_400_000},
    "OTEL_BSP_MAX_QUEUE_SIZE": {**_WHOLE, "minimum": 1, "maximum": 1_000_000},
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": {**_WHOLE, "minimum": 1, "maximum": 1_000_000},
    "OTEL_BSP_SCHEDULE_DELAY": {**_WHOLE, "minimum": 1, "maximum": 3_600_000},
}
"""OTEL_* values that processes refuse at start (see `sharebroker_protocol.tracing.settings`)."""

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
    schema["properties"]["env"]["properties"] = TRACING
    return json.dumps(schema, indent=2) + "\n"


def order() -> str:
    """Which properties must be less than which, for templates: the schema compares no two values."""
    lines = ["# Which broker properties must be less than which others; `make chart` writes it anew.\n"]
    for smaller, sign, larger in ORDERED:
        defaults = f"[{BROKER_KEYS[smaller].default}, {BROKER_KEYS[larger].default}]"
        lines.append(f'- {{smaller: {smaller}, sign: "{sign}", larger: {larger}, defaults: {defaults}}}\n')
    return "".join(lines)


def _property(key: Key) -> dict[str, Any]:
    if key.type in _NUMBERS:
        # Helm's numbers are floating, in which the highest long is a number that is no long.
        highest = {} if key.high == LONG_MAX else {"maximum": key.high}
        return {"type": ["integer", "string"], "pattern": "^-?[0-9]+$", "minimum": key.low, **highest}
    if key.type is ValueType.BOOLEAN:
        return {"enum": [True, False, "true", "false"]}
    return {"type": "string", **({"enum": list(key.choices)} if key.choices else {})}
