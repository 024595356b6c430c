"""The image: its inputs are locked, its contents are needed. Only a Docker engine can show that it runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from unittest.mock import patch

import pytest

from sharebroker.cli.commands.probe import DEFAULT_URL, probe
from tests.architecture.sources import ROOT
from tests.testkit.brokers import Serve
from tests.testkit.waiting import until

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
FINAL = DOCKERFILE.partition("\nFROM scratch AS server\n")[2].partition("\nFROM ")[0]
_PINNED = re.compile(r"^([a-z0-9.-]+)==(\S+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def pinned(lock: Path) -> dict[str, str]:
    """Returns versions by package."""
    return dict(_PINNED.findall(lock.read_text()))


@pytest.mark.parametrize("name", ["runtime.lock", "build.lock"])
def test_image_pins_the_tested_versions(name: str) -> None:
    tested = pinned(ROOT / "requirements.lock")
    assert {package: tested.get(package) for package in pinned(DEPLOY / name)} == pinned(DEPLOY / name)


@pytest.mark.parametrize("name", ["runtime.lock", "build.lock", "tools.lock"])
def test_every_package_has_hashes_and_no_index(name: str) -> None:
    text = (DEPLOY / name).read_text()
    entries = re.split(r"\n(?=[a-z0-9])", text.strip())
    assert len(entries) == len(pinned(DEPLOY / name))
    assert all(_HASH.search(entry) for entry in entries)
    assert "://" not in text


def test_image_has_runtime_dependencies_and_no_test_tools() -> None:
    locked = pinned(DEPLOY / "runtime.lock")
    development = set()
    for project in (
        ROOT / "pyproject.toml",
        *(ROOT / "libs" / name / "pyproject.toml" for name in ("protocol", "python_client")),
    ):
        facts = tomllib.loads(project.read_text())["project"]
        named = {re.split(r"[<>=\[; ]", one)[0] for one in facts["dependencies"]} - {
            "sharebroker",
            "sharebroker-protocol",
        }
        assert named <= set(locked), "`make lock` brings deploy/runtime.lock up to date"
        development |= {
            re.split(r"[<>=\[; ]", one)[0]
            for extra in facts.get("optional-dependencies", {}).values()
            for one in extra
        }
    assert (
        not development
        & set(locked)
        & {"pytest", "mypy", "ruff", "hypothesis", "testcontainers", "grpcio-tools"}
    )


def test_the_image_is_built_from_a_named_release() -> None:
    (base,) = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", base)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE}", "scratch", "server"}
    assert DOCKERFILE.count("--require-hashes") == 3
    assert DOCKERFILE.endswith("\nFROM server\n"), "without a target it is the server"


def test_removed_files_are_in_no_layer() -> None:
    assert FINAL.count("COPY --from=base / /\n") == 1
    assert "rm -" not in FINAL
    removed = DOCKERFILE.partition("\nFROM ${BASE} AS base\n")[2].partition("\nFROM ")[0]
    assert {"bin/pip*", "lib/python3.11/site-packages/*", "lib/python3.11/ensurepip"} <= set(removed.split())


def test_image_runs_without_root_and_drains_on_sigterm() -> None:
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", FINAL, re.MULTILINE)
    assert "\nSTOPSIGNAL SIGTERM\n" in FINAL
    assert re.search(r'^HEALTHCHECK .*CMD \["sharebroker", "probe", "live"\]$', FINAL, re.MULTILINE)
    assert '\nENTRYPOINT ["sharebroker"]\n' in FINAL


def test_health_check_works_for_every_role(tmp_path: Path) -> None:
    """Also as in the README: `serve` with other options, without --metrics."""
    (address,) = re.findall(r"SHAREBROKER_METRICS=(\S+)", FINAL)
    assert address.rpartition(":")[2] == DEFAULT_URL.rpartition(":")[2]
    serve = Serve(tmp_path, ["--data", str(tmp_path / "data")])
    with patch.dict(os.environ, SHAREBROKER_METRICS="127.0.0.1:0"):
        serve.start()
    try:
        until(lambda: probe(["live", "--url", f"http://{serve.facts['metrics']}"]) == 0, 60)
    finally:
        assert serve.stop() == 0


def test_standard_library_is_precompiled(tmp_path: Path) -> None:
    """Python's image contains it uncompiled: a start, and each health check, took twice the time."""
    (words,) = re.findall(r"^RUN (export PYTHONDONTWRITEBYTECODE= .+)$", FINAL, re.MULTILINE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    compiled = tmp_path / "compiled"
    unwritten = {**os.environ, "PATH": path, "PYTHONPYCACHEPREFIX": str(compiled)}
    subprocess.run(["sh", "-ec", words], env=unwritten, cwd=tmp_path, check=True, timeout=100)
    library = sysconfig.get_path("stdlib")
    there = {str(file.relative_to(compiled)) for file in compiled.rglob("*.pyc")}
    for needed in ("asyncio/base_events", "http/client", "ssl"):
        assert any(f"{library}/{needed}.".removeprefix("/") in file for file in there)


def test_build_context_has_only_needed_files() -> None:
    first, *rest = (ROOT / ".dockerignore").read_text().splitlines()
    assert first == "*"
    copied = {
        source
        for line in DOCKERFILE.splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert {line[1:] for line in rest if line.startswith("!")} >= copied
