"""Renews the API table of docs/kafka-compatibility.md: `python -m services.gateway.kafka.readme`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from sharebroker_server.gateway.kafka.dispatch.api_table import served
from sharebroker_server.gateway.kafka.dispatch.call import Api
from sharebroker_server.kafka_wire.schema import api_schema

DOCUMENT: Final = Path(__file__).parents[4] / "docs" / "kafka-compatibility.md"
_TABLE: Final = re.compile(r"(?<=<!-- what is served -->\n).*?(?=<!-- end -->)", re.DOTALL)


def with_table(text: str) -> str:
    """Returns the document with the table of the APIs that are served."""
    rows = [_row(key, one) for key, one in sorted(served().items())]
    table = "\n".join(["| Key | API | Versions | |", "|---|---|---|---|", *rows])
    return _TABLE.sub(lambda _: f"{table}\n", text)


def _row(key: int, one: Api) -> str:
    first, last = one.versions
    # Each module begins with the API's name, its key, and what it is for.
    says = (sys.modules[one.handle.__module__].__doc__ or "").splitlines()[0].partition(": ")[2].rstrip(".")
    versions = str(last) if first == last else f"{first}–{last}"
    return f"| {key} | {api_schema(key).name} | {versions} | {says} |"


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text()))
