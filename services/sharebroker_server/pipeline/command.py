"""The subcommands of `sharebroker pipeline`: run and dry-run."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from sharebroker import Admin, KafkaError
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Server, Topic, examples
from sharebroker.cli.output import BAD_USAGE, FAILED, console, explain, print_json, print_notice
from sharebroker.cli.session import FromBeginning
from sharebroker_server.pipeline.display import print_tables, progress, verdict
from sharebroker_server.pipeline.project import FolderError, Project, Settings
from sharebroker_server.pipeline.spark_process import (
    VARIABLE,
    NoSparkError,
    PipelineError,
    find_spark,
    run_spark,
)

app = typer.Typer(
    no_args_is_help=True,
    help="Process a topic of flights with Spark into tables and a report, and verify the groups' state.",
)

_LIMIT: Final = "share.delivery.count.limit"
_INTERRUPTED: Final = 130

InGroup = Annotated[str, typer.Option("--group", "-g", help="Id of the share group that reads the topic.")]
Watch = Annotated[
    list[str] | None,
    typer.Option(
        "--watch", help="Group whose state is verified; may be repeated. Default: all groups of the topic."
    ),
]
Folder = Annotated[
    Path, typer.Option("--folder", help="Folder of tables, checkpoints and report; for one topic and group.")
]
Spark = Annotated[
    Path | None,
    typer.Option("--spark", envvar=VARIABLE, help="Spark's environment (`make spark`); detected if omitted."),
]
Master = Annotated[str, typer.Option("--master", help="Spark's master.")]
Memory = Annotated[str, typer.Option("--memory", help="Memory of Spark's driver.")]
Records = Annotated[
    int,
    typer.Option(
        "--records-per-trigger", min=1, max=1_000_000, help="Largest number of records of a micro-batch."
    ),
]
_FOLDER: Final = Path("data", "pipeline")
_MASTER: Final = "local[2]"
_MEMORY: Final = "1g"
_RECORDS: Final = 50_000


@app.command(
    epilog=examples(
        "sharebroker pipeline run flights --from-beginning",
        "sharebroker pipeline run flights --group delays-by-spark --folder /var/lib/pipeline",
        "sharebroker pipeline run flights --watch billing --watch shipping --json",
    )
)
def run(
    topic: Topic,
    group: InGroup = "pipeline",
    watch: Watch = None,
    folder: Folder = _FOLDER,
    from_beginning: FromBeginning = False,
    records: Records = _RECORDS,
    master: Master = _MASTER,
    memory: Memory = _MEMORY,
    spark: Spark = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Process all records of a topic, update the tables, and write the report.

    Bronze contains the records with their delivery metadata, silver the typed flights, and separately the
    rejected rows. Gold contains delays, and the health of the work queues. The log of the groups' state is
    replayed and compared with the coordinator's state. An interrupted run continues from its checkpoints.

    Exit code 0: success; 1: log and state differ, or Spark failed; 2: the run could not start.
    """
    with _failures():
        environment, project = find_spark(spark), Project(folder)
        settings = _settings_of(server, topic, group, watch, records)
        with project.locked({"topic": topic, "group": group}) as lock:
            if from_beginning:
                with Admin(server) as admin:
                    admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
            project.stage(settings.to_configuration(), master, memory)
            with progress() as show:
                run_spark(environment, project, lock, "run", show)
            tables = json.loads((project.report / "summary.json").read_text())
    if as_json:
        print_json(tables)
    else:
        print_tables(tables)
        console().print(verdict(tables), highlight=False)
        console().print(f"Report: {project.report / 'index.html'}", highlight=False, soft_wrap=True)
    if tables["totals"][0]["differences"]:
        raise typer.Exit(FAILED)


@app.command(name="dry-run", epilog=examples("sharebroker pipeline dry-run flights"))
def dry_run(
    topic: Topic,
    group: InGroup = "pipeline",
    watch: Watch = None,
    folder: Folder = _FOLDER,
    master: Master = _MASTER,
    memory: Memory = _MEMORY,
    spark: Spark = None,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Let Spark validate the definitions without reading data. Exit codes as for `run`."""
    with _failures():
        environment, project = find_spark(spark), Project(folder)
        settings = _settings_of(server, topic, group, watch, _RECORDS)
        with project.locked({"topic": topic, "group": group}) as lock:
            project.stage(settings.to_configuration(), master, memory)
            with progress() as show:
                run_spark(environment, project, lock, "dry-run", show)
    print_notice("The definitions are valid.")


@contextmanager
def _failures() -> Iterator[None]:
    """Prints one sentence per error, and exits with its code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM acts as Ctrl-C
    try:
        yield
    except (PipelineError, NoSparkError, FolderError) as error:
        print_notice(f"sharebroker: {error}")
        raise typer.Exit(FAILED if isinstance(error, PipelineError) else BAD_USAGE) from None
    except (KafkaError, OSError) as error:
        print_notice(f"sharebroker: {explain(error)}")
        raise typer.Exit(BAD_USAGE) from None
    except KeyboardInterrupt:
        print_notice("Stopped. Start it again to continue from its checkpoints.")
        raise typer.Exit(_INTERRUPTED) from None


def _settings_of(server: str, topic: str, group: str, watch: list[str] | None, records: int) -> Settings:
    """Returns the settings for Spark, after checking topic and groups. Raises KafkaError."""
    with Admin(server) as admin:
        admin.describe_topic(topic)
        for name in watch or ():
            admin.describe_group(name)
        groups = watch or _groups_of(admin, topic)
        limits = {name: _limit(admin, name) for name in groups}
    return Settings(server, topic, group, ",".join(watch or ()), limits, str(records))


def _groups_of(admin: Admin, topic: str) -> list[str]:
    groups = [listed.group_id for listed in admin.list_groups()]
    return [
        name for name in groups if any(partition.topic == topic for partition in admin.group_offsets(name))
    ]


def _limit(admin: Admin, group: str) -> int:
    return next(int(config.value or 0) for config in admin.group_configs(group) if config.name == _LIMIT)
