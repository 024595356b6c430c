"""The meaning of the chart's values, from the schema: a table in the README, and comments for `helm show
values`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tests.deploy.chart import CHART

BEGIN, END = "<!-- values -->\n", "<!-- end -->\n"
README = CHART / "README.md"
VALUES = CHART / "values.yaml"
_KEY = re.compile(r"^( *)([\w-]+):")


def resolved(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a node of the schema with its references resolved."""
    return {**schema["$defs"].get(node.get("$ref", "").rpartition("/")[2], {}), **node}


def rows(values: Mapping[str, Any], node: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """Yields a row for each value without nested values."""

    def lines(path: str, value: object, node: Mapping[str, Any]) -> Iterator[str]:
        whole = resolved(node, schema)
        inner = whole.get("properties", {})
        if isinstance(value, dict) and value and inner and not path.startswith("roles."):
            for name in value:
                yield from lines(f"{path}.{name}" if path else name, value[name], inner[name])
        else:
            yield f"| `{path}` | `{json.dumps(value)}` | {whole['description']} |"

    yield from lines("", values, node)


def table() -> str:
    """Returns the table as Markdown."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load(VALUES.read_text())
    return "\n".join(["| Value | Default | |", "|---|---|---|", *rows(values, schema, schema)]) + "\n"


def with_table(text: str) -> str:
    """Returns the README with the generated table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def with_comments(text: str) -> str:
    """Returns values.yaml with the meaning of each value above it; a role's own values are described in
    roleDefaults.
    """
    schema = json.loads((CHART / "values.schema.json").read_text())
    open_nodes: list[tuple[int, Mapping[str, Any]]] = []
    lines = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        if key := _KEY.match(line):
            depth, name = len(key[1]), key[2]
            open_nodes = [one for one in open_nodes if one[0] < depth]
            parent = open_nodes[-1][1] if open_nodes else schema
            node = resolved(parent.get("properties", {}).get(name, {}), schema)
            if "description" in node:
                lines.append(f"{key[1]}# {node['description']}")
            own = node.get("$ref") == "#/$defs/role" and parent is not schema
            open_nodes.append((depth, {} if own else node))
        lines.append(line)
    return "\n".join(lines) + "\n"
