"""Prints the fields of an Arrow IPC stream, which it reads from standard input, as JSON.

Runs in Spark's environment, whose types it names, and imports nothing of this service.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema


def main() -> int:
    """Prints the type of each field, with NOT NULL if it cannot be null."""
    schema: Any = pa.ipc.open_stream(sys.stdin.buffer.read()).schema
    fields = {
        field.name: field.dataType.simpleString().replace("timestamp_ntz", "timestamp")
        + ("" if field.nullable else " NOT NULL")
        for field in from_arrow_schema(schema)
    }
    sys.stdout.write(json.dumps(fields))
    return 0


if __name__ == "__main__":
    sys.exit(main())
