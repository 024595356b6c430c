"""Turns the errors of the pipeline's commands into a sentence and an exit code."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import typer

from sharebroker import KafkaError
from sharebroker.cli.output import BAD_USAGE, FAILED, explain, print_notice
from sharebroker_server.pipeline.project import ProjectError
from sharebroker_server.pipeline.run_folder import FolderError
from sharebroker_server.pipeline.spark_process import NoSparkError, PipelineError

_INTERRUPTED: Final = 130


@contextmanager
def failures() -> Iterator[None]:
    """Prints one sentence per error, and exits with its code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM acts as Ctrl-C
    try:
        yield
    except (PipelineError, NoSparkError, FolderError, ProjectError) as error:
        print_notice(f"sharebroker: {error}")
        raise typer.Exit(FAILED if isinstance(error, PipelineError) else BAD_USAGE) from None
    except (KafkaError, OSError) as error:
        print_notice(f"sharebroker: {explain(error)}")
        raise typer.Exit(BAD_USAGE) from None
    except KeyboardInterrupt:
        print_notice("Stopped. Start it again to continue from its checkpoints.")
        raise typer.Exit(_INTERRUPTED) from None
