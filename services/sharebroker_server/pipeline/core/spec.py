"""Fills values into `spark-pipeline.yml`."""

from __future__ import annotations

import json
from collections.abc import Mapping


def filled(spec: str, storage: str, configuration: Mapping[str, str]) -> str:
    """Returns the specification with these values. Raises KeyError for an unknown name.

    JSON strings are valid YAML strings.
    """
    values = {"storage": storage, **{f"  {name}": value for name, value in configuration.items()}}
    lines = spec.splitlines()
    for name, value in values.items():
        numbers = [number for number, line in enumerate(lines) if line.startswith(f"{name}: ")]
        if len(numbers) != 1:
            raise KeyError(name.strip())
        lines[numbers[0]] = f"{name}: {json.dumps(value)}"
    return "\n".join(lines) + "\n"
