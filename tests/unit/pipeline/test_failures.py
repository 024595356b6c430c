"""Errors of the pipeline's commands: one sentence, and an exit code."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import typer

from sharebroker import ErrorCode, KafkaError
from sharebroker_server.pipeline.failures import failures
from sharebroker_server.pipeline.project import ProjectError
from sharebroker_server.pipeline.run_folder import FolderError
from sharebroker_server.pipeline.spark_process import NoSparkError, PipelineError


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (PipelineError("Spark failed."), 1, "sharebroker: Spark failed."),
        (NoSparkError("No Spark."), 2, "sharebroker: No Spark."),
        (FolderError("In use."), 2, "sharebroker: In use."),
        (ProjectError("Invalid."), 2, "sharebroker: Invalid."),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No topic."), 2, "No topic."),
        (OSError("disk full"), 2, "disk full"),
        (KeyboardInterrupt(), 130, "continue from its checkpoints"),
    ],
)
def test_error_is_a_sentence_with_an_exit_code(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, text: str
) -> None:
    with pytest.raises(typer.Exit) as ended, failures():
        raise error
    assert ended.value.exit_code == code
    assert text in capsys.readouterr().err
