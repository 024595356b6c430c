"""Parses the output of Spark's `spark-pipelines`."""

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
_MAX_LENGTH: Final = 300


@dataclass(slots=True)
class Run:
    """The progress of a run, from its output."""

    stage: str = "starting Spark"
    flows: dict[str, str] = field(default_factory=dict)
    error: str = ""

    def parse_line(self, line: str) -> None:
        """Parses one line."""
        text = line.strip()
        if found := _FLOW.search(text):
            name, state = found.groups()
            self.flows[name] = state
            self.stage = self._stage()
        for start, stage in _STARTS.items():
            if start in text:
                self.stage = stage
        if failed := _ERROR.match(text):
            self.error = f"{failed[1]}: {failed[2]}"[:_MAX_LENGTH]

    @property
    def working(self) -> bool:
        """Whether tables are being computed."""
        return any(state not in _WAITING for state in self.flows.values())

    @property
    def done(self) -> int:
        """The number of finished tables."""
        return sum(state not in _NOT_YET and state != _FAILED for state in self.flows.values())

    @property
    def failed(self) -> list[str]:
        """The names of tables that failed."""
        return sorted(name for name, state in self.flows.items() if state == _FAILED)

    def _stage(self) -> str:
        running = [name for name, state in self.flows.items() if state == "RUNNING"]
        return ", ".join(running[:2]) + (" …" if len(running) > 2 else "") if running else self.stage


def cause(log: str) -> str:
    """Returns the last error in a log without its stack trace; empty without one."""
    found = _CAUSES.findall(log)
    return f"{found[-1][1]}".strip()[:_MAX_LENGTH] if found else ""
