"""Draws charts of given rows, and prints the pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sharebroker_server.pipeline import charts
from tests.spark.programs.session import report

given = json.loads(Path(sys.argv[1]).read_text())
pictures = {name: getattr(charts, kind)(*arguments) for name, (kind, *arguments) in given.items()}
report(pictures=pictures)
