"""The fields of an Arrow stream, printed by a program in Spark's environment."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from sharebroker_server.pipeline.core.proposal import ARROW_START, usable
from tests.architecture.sources import ROOT
from tests.spark.environment import ENVIRONMENT, needs_spark

pytestmark = [needs_spark, pytest.mark.timeout(300)]
PYTHON = str(ENVIRONMENT / "bin" / "python")
STREAM = """
import sys
import pyarrow as pa
fields = [pa.field("id", pa.int64(), nullable=False), ("at", pa.timestamp("ms")),
          ("tags", pa.list_(pa.string())), ("p", pa.struct([("x", pa.float64())]))]
with pa.ipc.new_stream(sys.stdout.buffer, pa.schema(fields)):
    pass
"""


def test_fields_have_types_that_a_project_can_declare(tmp_path: Path) -> None:
    stream = subprocess.run([PYTHON, "-c", STREAM], capture_output=True, check=True).stdout
    assert stream.startswith(ARROW_START)
    program = ROOT / "services" / "sharebroker_server" / "pipeline" / "arrow_fields.py"
    ran = subprocess.run([PYTHON, str(program)], input=stream, capture_output=True, check=True)
    fields = json.loads(ran.stdout)
    assert fields == {
        "id": "bigint NOT NULL",
        "at": "timestamp",
        "tags": "array<string>",
        "p": "struct<x:double>",
    }
    assert usable(fields) == (fields, [])
