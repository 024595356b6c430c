"""The command line of the pipeline: what is checked before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sharebroker_server.pipeline.command import app

RUN = CliRunner()


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    """The folder of a Spark environment without content."""
    folder = tmp_path / "spark"
    for name in ("bin", "spark-home"):
        (folder / name).mkdir(parents=True)
    for name in (".ready", "bin/python"):
        (folder / name).touch()
    return folder


@pytest.mark.parametrize("command", ["run", "dry-run"])
def test_project_is_read_before_a_server_is_needed(tmp_path: Path, spark: Path, command: str) -> None:
    ran = RUN.invoke(app, [command, str(tmp_path), "--spark", str(spark), "--server", "127.0.0.1:1"])
    assert ran.exit_code == 2
    assert "has no pipeline.toml" in ran.output
    (tmp_path / "pipeline.toml").write_text('topic = "orders"\ncolour = "red"\n')
    ran = RUN.invoke(app, [command, str(tmp_path), "--spark", str(spark), "--server", "127.0.0.1:1"])
    assert ran.exit_code == 2
    assert "colour: there is no such setting" in ran.output


def test_missing_spark_is_named_first(tmp_path: Path) -> None:
    ran = RUN.invoke(app, ["run", "example:flights", "--spark", str(tmp_path)])
    assert ran.exit_code == 2
    assert "`make spark` installs it" in ran.output


@pytest.mark.parametrize("name", ["init", "run", "dry-run"])
def test_each_command_has_examples(name: str) -> None:
    ran = RUN.invoke(app, [name, "--help"])
    assert ran.exit_code == 0
    assert f"sharebroker pipeline {name} orders" in ran.output
