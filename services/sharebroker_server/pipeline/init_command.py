"""`sharebroker pipeline init`: writes a project for a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sharebroker.cli.options import DEFAULT_SERVER, Server, Topic
from sharebroker.cli.output import print_notice

_AVRO_FILE: Final = "value.avsc"

Where = Annotated[
    Path | None, typer.Option("--project", help="Folder to write. Default: one named like the topic.")
]
InGroup = Annotated[
    str | None, typer.Option("--group", "-g", help="Share group that reads. Default: TOPIC-pipeline.")
]
AvroSchema = Annotated[
    list[str] | None,
    typer.Option(
        "--avro-schema",
        metavar="[ID=]FILE",
        help="Schema of Avro values, a file of JSON. With --confluent, the schema of each id; the id may be "
        "left out if the first values have only one.",
    ),
]
Confluent = Annotated[
    bool,
    typer.Option("--confluent", help="A schema id precedes Avro values, as Confluent's clients write it."),
]
Sampled = Annotated[
    int, typer.Option("--records", min=1, max=100_000, help="Number of records to propose fields from.")
]


def init(
    topic: Topic,
    project: Where = None,
    group: InGroup = None,
    avro_schema: AvroSchema = None,
    confluent: Confluent = False,
    records: Sampled = 1000,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Write a project for a topic: fields of its values, checks, tables and a report, to be edited.

    Reads the topic's first records without a group. Values are JSON objects or Arrow IPC streams; for Avro a
    schema is required. Files that exist are not changed.
    """
    # The help needs none of these modules.
    import asyncio

    from sharebroker_server.pipeline.core import proposal
    from sharebroker_server.pipeline.failures import failures
    from sharebroker_server.pipeline.project import FILE, ProjectError
    from sharebroker_server.pipeline.sampling import fields_of, first_values

    folder = project or Path(topic)
    with failures():
        if (folder / FILE).exists():
            raise ProjectError(f"{folder / FILE} exists; choose another folder with --project.")
        values = asyncio.run(first_values(server, topic, records))
        schemas = _schemas(avro_schema or (), values, confluent=confluent)
        objects = proposal.json_objects(values)
        value_format, found = fields_of(values, objects, list(schemas.values()))
        fields, unusable = proposal.usable(found)
        value: dict[str, Any] = {"format": value_format, "fields": fields}
        names = {number: f"value-{number}.avsc" if confluent else _AVRO_FILE for number in schemas}
        if schemas:
            value |= (
                {"avro_schema": names, "framing": "confluent"} if confluent else {"avro_schema": _AVRO_FILE}
            )
        files = {names[number]: schema for number, schema in schemas.items()}
        grouped = next(iter(proposal.group_columns(objects, fields)), None)
        files |= proposal.project_files(topic, group or f"{topic}-pipeline", value, grouped)
        _write(folder, files, FILE)
    for name in unusable:
        print_notice(f"The field {name!r} cannot be a column; it is left out.")
    print_notice(f"Wrote {folder / FILE} with {len(fields)} fields. Edit it, then run:")
    print_notice(f"sharebroker pipeline run {folder} --from-beginning")


def _schemas(options: Sequence[str], values: Sequence[bytes], *, confluent: bool) -> dict[int, str]:
    """Returns the schemas by id; without Confluent's framing, one that has the id 0. Raises ProjectError."""
    from sharebroker_server.pipeline.core.proposal import schemas_by_id
    from sharebroker_server.pipeline.project import ProjectError

    try:
        named = schemas_by_id(options, values, confluent=confluent)
    except ValueError as error:
        raise ProjectError(str(error)) from None
    return {number: Path(name).read_text(errors="replace") for number, name in named.items()}


def _write(folder: Path, files: Mapping[str, str], last: str) -> None:
    """Writes the files that do not exist, `last` at the end: an interrupted call can be repeated."""
    for name, text in sorted(files.items(), key=lambda file: file[0] == last):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists():
            (folder / name).write_text(text)
