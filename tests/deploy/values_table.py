"""The table of the chart's values: paths and defaults from values.yaml, meanings from the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tests.deploy.chart import CHART

BEGIN, END = "<!-- values -->\n", "<!-- end -->\n"
README = CHART / "README.md"


def rows(values: Mapping[str, Any], node: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """A line for each value that has no values within."""

    def lines(path: str, value: object, node: Mapping[str, Any]) -> Iterator[str]:
        whole = {**schema["$defs"].get(node.get("$ref", "").rpartition("/")[2], {}), **node}
        inner = whole.get("properties", {})
        if isinstance(value, dict) and value and inner and not path.startswith("roles."):
            for name in value:
                yield from lines(f"{path}.{name}" if path else name, value[name], inner[name])
        else:
            yield f"| `{path}` | `{json.dumps(value)}` | {whole['description']} |"

    yield from lines("", values, node)


def table() -> str:
    """The table as Markdown."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    return "\n".join(["| Value | Default | |", "|---|---|---|", *rows(values, schema, schema)]) + "\n"


def with_table(text: str) -> str:
    """The README with the table as it has to be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"
