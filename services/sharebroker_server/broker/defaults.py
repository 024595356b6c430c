"""Defaults of the options of `sharebroker serve`, for its help and for its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DEFAULT_GRPC: Final = "127.0.0.1:9090"
DEFAULT_KAFKA: Final = "127.0.0.1:9092"
CLOSED: Final = "none"
"""The value of `--kafka` for a broker without a Kafka listener."""

DEFAULT_DATA: Final = Path("data")
