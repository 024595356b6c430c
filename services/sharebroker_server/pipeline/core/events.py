"""What Spark's `spark-pipelines` says while it runs, a line each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_FLOW: Final = re.compile(r"Flow '?(?:\w+\.)*(\w+)'? (?:is|has) ([A-Z]+)")
_FAILED: Final = "FAILED"
_WAITING: Final = frozenset({"QUEUED", "PLANNING", "STARTING"})
_NOT_YET: Final = frozenset({*_WAITING, "RUNNING"})
_ERROR: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Exception|Error)): (.+)$")
_CAUSES: Final = re.compile(
    r"(?:sharebroker\w*\.[\w.]*|pyspark\.errors\.\w+\.)?(\w*(?:Error|Exception)): (.+)"
)
_STARTS: Final = {
    "Creating Spark session": "starting Spark",
    "Registering graph elements": "reading the definitions",
    "Starting run": "planning",
    "Run is COMPLETED": "done",
}
_LONGEST: Final = 300


@dataclass(slots=True)
class Run:
    """Where a run stands, told line by line."""

    stage: str = "starting Spark"
    flows: dict[str, str] = field(default_factory=dict)
    error: str = ""

    def hear(self, line: str) -> None:
        """Take a line in."""
        text = line.strip()
        if found := _FLOW.search(text):
            name, state = found.groups()
            self.flows[name] = state
            self.stage = self._stage()
        for start, stage in _STARTS.items():
            if start in text:
                self.stage = stage
        if failed := _ERROR.match(text):
            self.error = f"{failed[1]}: {failed[2]}"[:_LONGEST]

    @property
    def working(self) -> bool:
        """Whether tables are being made."""
        return any(state not in _WAITING for state in self.flows.values())

    @property
    def done(self) -> int:
        """Tables that are finished."""
        return sum(state not in _NOT_YET and state != _FAILED for state in self.flows.values())

    @property
    def failed(self) -> list[str]:
        """Tables that could not be made."""
        return sorted(name for name, state in self.flows.items() if state == _FAILED)

    def _stage(self) -> str:
        running = [name for name, state in self.flows.items() if state == "RUNNING"]
        return ", ".join(running[:2]) + (" …" if len(running) > 2 else "") if running else self.stage


def cause(log: str) -> str:
    """The last error a log tells of, without what lies around it; empty: none."""
    found = _CAUSES.findall(log)
    return f"{found[-1][1]}".strip()[:_LONGEST] if found else ""
