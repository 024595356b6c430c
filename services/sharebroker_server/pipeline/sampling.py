"""Reads the first records of a topic, and proposes the fields of their values."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sharebroker.admin_model import EARLIEST, LATEST
from sharebroker.aio.admin import Admin
from sharebroker.aio.record_browser import RecordBrowser
from sharebroker_protocol.model import TopicPartition
from sharebroker_server.pipeline.core import proposal
from sharebroker_server.pipeline.core.definition import DefinitionError
from sharebroker_server.pipeline.project import ProjectError
from sharebroker_server.pipeline.spark_process import NoSparkError, find_spark, python_of

_SECONDS: Final = 120.0


async def first_values(server: str, topic: str, records: int) -> list[bytes]:
    """Returns values of the first records of each partition, at most this many in all. Raises KafkaError."""
    async with Admin(server) as admin:
        count = (await admin.describe_topic(topic)).partitions
        places = [TopicPartition(topic, number) for number in range(count)]
        starts, ends = await admin.list_offsets(places, EARLIEST), await admin.list_offsets(places, LATEST)
    share, values = max(1, records // max(1, count)), list[bytes]()
    async with RecordBrowser(server) as browser:
        for place in places[:records]:
            found = 0
            async for record in browser.read(place, starts[place] or 0, ends[place] or 0):
                values += [record.value] if record.value is not None else []
                found += 1
                if found == share:
                    break
    return values


def fields_of(
    values: Sequence[bytes], objects: Sequence[Mapping[str, Any]], schemas: Sequence[str]
) -> tuple[str, dict[str, str]]:
    """Returns the format of values and their fields.

    `objects` are those that are JSON objects; `schemas` are those of Avro. Raises ProjectError.
    """
    if schemas:
        try:
            return "avro", proposal.common_fields([proposal.avro_fields(schema) for schema in schemas])
        except DefinitionError as error:
            raise ProjectError(f"{error}.") from None
    if streams := [value for value in values if value.startswith(proposal.ARROW_START)]:
        return "arrow", _arrow_fields(streams[0])
    if fields := proposal.json_fields(objects):
        return "json", fields
    what = "are neither JSON objects nor Arrow streams" if values else "do not exist yet"
    raise ProjectError(f"The topic's first values {what}. For Avro give the schema with --avro-schema FILE.")


def _arrow_fields(value: bytes) -> dict[str, str]:
    """Returns the fields of an Arrow stream, read in Spark's environment. Raises ProjectError."""
    try:
        command = [python_of(find_spark(None)), str(Path(__file__).with_name("arrow_fields.py"))]
        ran = subprocess.run(command, input=value, capture_output=True, timeout=_SECONDS, check=False)
    except (NoSparkError, subprocess.TimeoutExpired) as error:
        raise ProjectError(f"The fields of Arrow values cannot be read: {error}") from None
    if ran.returncode != 0:
        reason = ran.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ProjectError(f"The first Arrow value cannot be read: {reason}.")
    fields: dict[str, str] = json.loads(ran.stdout)
    return fields
