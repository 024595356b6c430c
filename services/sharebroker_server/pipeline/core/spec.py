"""`spark-pipeline.yml` with other answers filled in, the rest as it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping


def filled(spec: str, storage: str, configuration: Mapping[str, str]) -> str:
    """The specification with these values. Raises KeyError for one that it does not have.

    JSON's strings are YAML's, too.
    """
    values = {"storage": storage, **{f"  {name}": value for name, value in configuration.items()}}
    lines = spec.splitlines()
    for name, value in values.items():
        numbers = [number for number, line in enumerate(lines) if line.startswith(f"{name}: ")]
        if len(numbers) != 1:
            raise KeyError(name.strip())
        lines[numbers[0]] = f"{name}: {json.dumps(value)}"
    return "\n".join(lines) + "\n"
