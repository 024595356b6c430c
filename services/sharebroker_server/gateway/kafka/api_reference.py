"""Renews the API table of docs/kafka-compatibility.md.

Run `python -m sharebroker_server.gateway.kafka.api_reference`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.gateway.kafka.call import Api
from sharebroker_server.gateway.kafka.permissions import API_PERMISSIONS
from sharebroker_server.kafka_wire.schema import api_schema

DOCUMENT: Final = Path(__file__).parents[4] / "docs" / "kafka-compatibility.md"
_TABLE: Final = re.compile(r"(?<=<!-- what is served -->\n).*?(?=<!-- end -->)", re.DOTALL)


def with_table(text: str) -> str:
    """Returns the document with the table of the APIs that are served."""
    rows = [_row(key, api) for key, api in sorted(APIS.items())]
    table = "\n".join(["| Key | API | Versions | | Needs |", "|---|---|---|---|---|", *rows])
    return _TABLE.sub(lambda _: f"{table}\n", text)


def _row(key: int, api: Api) -> str:
    first, last = api.versions
    # The docstring of each module begins with the name of the API, its key, and its purpose.
    purpose = (
        (sys.modules[api.handle.__module__].__doc__ or "").splitlines()[0].partition(": ")[2].rstrip(".")
    )
    versions = str(last) if first == last else f"{first}–{last}"
    return f"| {key} | {api_schema(key).name} | {versions} | {purpose} | {_permissions(key)} |"


def _permissions(key: int) -> str:
    """Returns the permissions that an API requires; those with an alternative as `A or B`."""
    found = []
    for permission in API_PERMISSIONS[key]:
        pairs = [(permission.operation, permission.type)]
        pairs += [permission.alternative] if permission.alternative else []
        found.append(" or ".join(f"{operation.name} {kind.name}" for operation, kind in pairs))
    return ", ".join(found) or "–"


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text()))
