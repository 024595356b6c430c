"""Calls with grpcurl, as of users without a client library. `make grpcurl` builds it (needs Go)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

_CACHED = Path(__file__).parents[2] / ".cache" / "bin" / "grpcurl"
GRPCURL = str(_CACHED) if _CACHED.exists() else shutil.which("grpcurl")

needs_grpcurl = pytest.mark.skipif(GRPCURL is None, reason="grpcurl is not here: `make grpcurl` brings it")


def grpcurl(*arguments: str, data: object = None) -> subprocess.CompletedProcess[str]:
    """Runs grpcurl to its end, with a request if there is one."""
    body = [] if data is None else ["-d", json.dumps(data)]
    command = [str(GRPCURL), "-plaintext", "-max-time", "20", *body, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def call(address: str, method: str, data: object) -> Any:
    """Calls a method of the gateway; returns the response."""
    done = grpcurl(address, f"sharebroker.gateway.v1.{method}", data=data)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "{}")


def read_from_the_start(address: str, group: str) -> None:
    """Configures a group to read topics from their start."""
    from_the_start = {
        "resource_type": "RESOURCE_TYPE_GROUP",
        "resource_name": group,
        "configs": [{"name": "share.auto.offset.reset", "value": "earliest"}],
    }
    call(address, "AdminService/IncrementalAlterConfigs", {"resources": [from_the_start]})


def acquire(address: str, topic: str, most: int = 10) -> Any:
    """Acquires records for the group of the topic's name; returns the response."""
    asked = {
        "group_id": topic,
        "topics": [topic],
        "max_records": most,
        "max_wait_ms": 10_000,
        "as_text": True,
    }
    return call(address, "ShareService/Acquire", asked)


def acknowledge(address: str, topic: str, acquired: Any, kinds: list[str]) -> Any:
    """Acknowledges each record that `acquire` returned, in order; returns the results."""
    decisions = [
        {
            "topic": topic,
            "partition": record.get("partition", 0),
            "offset": record.get("offset", 0),
            "lock_token": record["lock_token"],
            "type": f"ACKNOWLEDGE_TYPE_{kind}",
        }
        for record, kind in zip(acquired["records"], kinds, strict=True)
    ]
    asked = {"group_id": topic, "member_id": acquired["member_id"], "acknowledgements": decisions}
    return call(address, "ShareService/Acknowledge", asked)["results"]
