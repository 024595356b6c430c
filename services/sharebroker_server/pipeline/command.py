"""`sharebroker pipeline …`"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from sharebroker.blocking.admin import Admin
from sharebroker.cli.failures import BAD_USAGE, FAILED, explain
from sharebroker.cli.group_session import FromBeginning
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Server, Topic, examples
from sharebroker.cli.output import console, print_json, print_notice
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.pipeline.environment import VARIABLE, NoSparkError, find_spark
from sharebroker_server.pipeline.project import FolderError, Project
from sharebroker_server.pipeline.runner import PipelineError
from sharebroker_server.pipeline.runner import run as run_spark
from sharebroker_server.pipeline.settings import Settings
from sharebroker_server.pipeline.shown import print_tables, progress, verdict

app = typer.Typer(
    no_args_is_help=True,
    help="Work a topic of flights off with Spark, into tables and a report; check the groups' state, too.",
)

_LIMIT: Final = "share.delivery.count.limit"
_INTERRUPTED: Final = 130
_LEAST_RECORDS, _MOST_RECORDS = 1, 1_000_000

InGroup = Annotated[str, typer.Option("--group", "-g", help="Id of the share group to read as.")]
Watch = Annotated[
    list[str] | None,
    typer.Option(
        "--watch", help="A group whose state is looked at; may be repeated. All that work on the topic."
    ),
]
Folder = Annotated[
    Path, typer.Option("--folder", help="Where tables, checkpoints and report are; of one topic and group.")
]
Spark = Annotated[
    Path | None,
    typer.Option("--spark", envvar=VARIABLE, help="Spark's environment (`make spark`); found by itself."),
]
Master = Annotated[str, typer.Option("--master", help="Spark's master.")]
Memory = Annotated[str, typer.Option("--memory", help="Memory of Spark's driver.")]
Records = Annotated[
    int,
    typer.Option(
        "--records-per-trigger",
        min=_LEAST_RECORDS,
        max=_MOST_RECORDS,
        help="Records of a micro-batch at most.",
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
    """Work off what there is, bring the tables up to date, and write the report.

    Bronze: the records with the facts of their delivery. Silver: flights with types; rejected rows apart.
    Gold: delays, and the health of the work queues. Beside them the log of the groups' state, folded anew and
    compared with the coordinator's answers. A run that was ended goes on from its checkpoints the next time.

    Exit code 0: all well, 1: state and answers differ, or Spark failed, 2: it could not begin.
    """
    with _failures():
        environment, project = find_spark(spark), Project(folder)
        settings = _asked(server, topic, group, watch, records)
        with project.held({"topic": topic, "group": group}) as lock:
            _begin(server, group, from_beginning)
            project.stage(settings.to_configuration(), master, memory)
            _work(environment, project, lock, "run")
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
    """Have Spark check the definitions, and read nothing. Exit codes as for `run`."""
    with _failures():
        environment, project = find_spark(spark), Project(folder)
        settings = _asked(server, topic, group, watch, _RECORDS)
        with project.held({"topic": topic, "group": group}) as lock:
            project.stage(settings.to_configuration(), master, memory)
            _work(environment, project, lock, "dry-run")
    print_notice("The definitions are sound.")


@contextmanager
def _failures() -> Iterator[None]:
    """One sentence for whatever goes wrong, and its exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stop is a Ctrl-C
    try:
        yield
    except PipelineError as error:
        print_notice(f"sharebroker: {error}")
        raise typer.Exit(FAILED) from None
    except (NoSparkError, FolderError) as error:
        print_notice(f"sharebroker: {error}")
        raise typer.Exit(BAD_USAGE) from None
    except (KafkaError, OSError) as error:
        print_notice(f"sharebroker: {explain(error)}")
        raise typer.Exit(BAD_USAGE) from None
    except KeyboardInterrupt:
        print_notice("Stopped. Start it again to go on from its checkpoints.")
        raise typer.Exit(_INTERRUPTED) from None


def _asked(server: str, topic: str, group: str, watch: list[str] | None, records: int) -> Settings:
    """What Spark is to do, once the server has said that it can be done. Raises KafkaError."""
    with Admin(server) as admin:
        admin.describe_topic(topic)
        for name in watch or ():
            admin.describe_group(name)
        groups = watch or _working_on(admin, topic)
        limits = {name: _limit(admin, name) for name in groups}
    return Settings(server, topic, group, ",".join(watch or ()), limits, str(records))


def _working_on(admin: Admin, topic: str) -> list[str]:
    groups = [listed.group_id for listed in admin.list_groups()]
    return [name for name in groups if any(part.topic == topic for part in admin.group_offsets(name))]


def _limit(admin: Admin, group: str) -> int:
    return next(int(config.value or 0) for config in admin.group_configs(group) if config.name == _LIMIT)


def _begin(server: str, group: str, from_beginning: bool) -> None:
    if from_beginning:
        with Admin(server) as admin:
            admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})


def _work(environment: Path, project: Project, lock: int, how: str) -> None:
    with progress() as shown:
        run_spark(environment, project, lock, how, shown.show)
