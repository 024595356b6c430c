"""The subcommands of `sharebroker pipeline`: init, run and dry-run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Server, examples
from sharebroker.cli.output import FAILED, console, print_json, print_notice
from sharebroker.cli.session import FromBeginning
from sharebroker_server.pipeline.init_command import init
from sharebroker_server.pipeline.run_folder import SparkOptions
from sharebroker_server.pipeline.spark_process import VARIABLE, SparkProgram, run_spark

app = typer.Typer(
    no_args_is_help=True,
    help="Process a topic with Spark into tables and a report, and verify the groups' state.",
)
app.command(
    epilog=examples(
        "sharebroker pipeline init orders",
        "sharebroker pipeline init orders --project billing/pipeline --group billing-by-spark",
        "sharebroker pipeline init orders --confluent --avro-schema 7=order.avsc",
    )
)(init)

Project = Annotated[
    str, typer.Argument(metavar="PROJECT", help="Folder with pipeline.toml, or example:flights.")
]
OfTopic = Annotated[str | None, typer.Option("--topic", help="Topic to read instead of the project's.")]
InGroup = Annotated[
    str | None, typer.Option("--group", "-g", help="Share group that reads, instead of the project's.")
]
Watch = Annotated[
    list[str] | None,
    typer.Option(
        "--watch", help="Group whose state is verified; may be repeated. Default: all groups of the topic."
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        help="Folder of tables and report, for one topic, group and storage. Default: PROJECT/data.",
    ),
]
Replay = Annotated[
    bool,
    typer.Option(
        "--replay",
        help="Make the tables of rows again from all records received, after a change of the project.",
    ),
]
Storage = Annotated[
    str,
    typer.Option(
        "--storage", help="URI of tables and checkpoints that all of Spark reaches. Default: --folder."
    ),
]
Spark = Annotated[
    Path | None,
    typer.Option("--spark", envvar=VARIABLE, help="Spark's environment (`make spark`); detected if omitted."),
]
Master = Annotated[str, typer.Option("--master", help="Spark's master, such as spark://HOST:7077.")]
Memory = Annotated[str, typer.Option("--memory", help="Memory of Spark's driver.")]
Records = Annotated[
    int,
    typer.Option(
        "--records-per-trigger", min=1, max=1_000_000, help="Largest number of records of a micro-batch."
    ),
]
_MASTER: Final = "local[2]"
_MEMORY: Final = "1g"
_RECORDS: Final = 50_000


@app.command(
    epilog=examples(
        "sharebroker pipeline run orders --from-beginning",
        "sharebroker pipeline run orders --replay",
        "sharebroker pipeline run orders --master spark://spark.example.com:7077 --storage s3a://lake/orders",
        "sharebroker pipeline run example:flights --watch billing --watch shipping --json",
    )
)
def run(
    project: Project,
    topic: OfTopic = None,
    group: InGroup = None,
    watch: Watch = None,
    folder: Folder = None,
    from_beginning: FromBeginning = False,
    replay: Replay = False,
    records: Records = _RECORDS,
    master: Master = _MASTER,
    memory: Memory = _MEMORY,
    storage: Storage = "",
    spark: Spark = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Process all records of a topic, update the tables, and write the report.

    Bronze contains the records with their delivery metadata, silver the valid rows, and separately the
    rejected ones with reasons. Gold contains the project's tables, and the health of the work queues. The log
    of the groups' state is replayed and compared with the coordinator's state. An interrupted run continues
    from its checkpoints.

    Exit code 0: success; 1: log and state differ, or Spark failed; 2: the run could not start.
    """
    # The help needs none of these modules.
    from sharebroker import Admin
    from sharebroker_server.pipeline.display import print_tables, progress, verdict
    from sharebroker_server.pipeline.failures import failures
    from sharebroker_server.pipeline.preparation import Preparation

    with failures():
        start = Preparation(project, topic, group, watch or (), spark, server)
        data = start.data_folder(folder)
        options = SparkOptions(master, memory, storage, start.spark_settings)
        configuration = start.configuration(records)
        with data.locked(start.facts | options.facts) as lock:
            data.check_rows(start.rows, replay=replay)
            if from_beginning:
                with Admin(server) as admin:
                    admin.alter_group_configs(start.facts["group"], {"share.auto.offset.reset": "earliest"})
            data.stage(configuration, options)
            arguments = ["run", *(start.replayed() if replay else ())]
            with progress() as show:
                run_spark(SparkProgram(start.environment, data, lock, arguments, options.is_local), show)
            data.note_rows(start.rows)
            tables = json.loads((data.report / "summary.json").read_text())
    if as_json:
        print_json(tables)
    else:
        print_tables(tables)
        console().print(verdict(tables), highlight=False)
        console().print(f"Report: {data.report / 'index.html'}", highlight=False, soft_wrap=True)
    if tables["totals"][0]["differences"]:
        raise typer.Exit(FAILED)


@app.command(name="dry-run", epilog=examples("sharebroker pipeline dry-run orders"))
def dry_run(
    project: Project,
    topic: OfTopic = None,
    group: InGroup = None,
    watch: Watch = None,
    folder: Folder = None,
    master: Master = _MASTER,
    memory: Memory = _MEMORY,
    storage: Storage = "",
    spark: Spark = None,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Let Spark validate the definitions without reading data. Exit codes as for `run`."""
    # The help needs none of these modules.
    from sharebroker_server.pipeline.display import progress
    from sharebroker_server.pipeline.failures import failures
    from sharebroker_server.pipeline.preparation import Preparation

    with failures():
        start = Preparation(project, topic, group, watch or (), spark, server)
        data = start.data_folder(folder)
        options = SparkOptions(master, memory, storage, start.spark_settings)
        configuration = start.configuration(_RECORDS)
        with data.locked(start.facts | options.facts) as lock:
            data.stage(configuration, options)
            with progress() as show:
                run_spark(SparkProgram(start.environment, data, lock, ["dry-run"], options.is_local), show)
    print_notice("The definitions are valid.")
