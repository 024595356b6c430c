"""Fixed and random seeds of `make simulate`, and the repeatability of a seed."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.perf.checkout import HERE
from tests.simulation.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


def simulate(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `python -m tests.simulation` in a separate interpreter.

    The variable has the value with which the program would start again.
    """
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *options],
        cwd=ROOT,
        env=HERE.environment() | {"PYTHONHASHSEED": "0"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(600)
def test_known_seeds_keep_every_invariant() -> None:
    """The seeds are fixed: a failure is a new defect."""
    run = simulate("--seeds", "100", "--first", "1")
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.timeout(900)
def test_fresh_seeds_keep_every_invariant() -> None:
    """The seeds are random: a failure is a defect, and prints the command that repeats it."""
    run = simulate("--seeds", "100")
    assert run.returncode == 0, run.stdout + run.stderr


def test_same_seed_gives_the_same_run() -> None:
    """Two processes print the same bytes."""
    once, other = simulate("--seed", "2"), simulate("--seed", "3")
    again = simulate("--seed", "2", PYTHONHASHSEED="random")
    assert once.returncode == 0, once.stdout
    assert once.stdout.count("\n") > 100
    assert once.stdout == again.stdout
    assert once.stdout != other.stdout


def test_mutant_is_detected() -> None:
    """Uses one of the mutants; `make simulate-mutants` runs all. The report has the shrunk run and its
    command.
    """
    hunt = simulate("--mutants", "leader replies", "--seeds", "20")
    assert hunt.returncode == 0, hunt.stdout + hunt.stderr
    found = re.search(r"seed (\d+), without ([a-z0-9,]+): (DURABLE_BEFORE_ANSWERED.*)", hunt.stdout)
    assert found is not None, hunt.stdout
    seed, without, failure = found.groups()
    assert re.search(r"\bf\d.*\bm\d", without), "neither faults nor members were removed"
    again = simulate("--mutants", "leader replies", "--seed", seed, "--without", without)
    assert failure in again.stdout
    assert again.returncode == 1


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.missing)
def test_patches_of_each_mutant_apply(mutant: Mutant) -> None:
    with ExitStack() as stack:
        for broken in mutant.patches():
            stack.enter_context(broken)


def test_mutant_that_survives_is_a_failure() -> None:
    hunt = simulate("--mutants", "does not compare epochs", "--seeds", "1")
    assert hunt.returncode == 1
    assert "SURVIVED" in hunt.stdout


def test_mutants_run_with_the_requested_seeds() -> None:
    hunt = simulate("--mutants", "start offset in memory", "--first", "1", "--seeds", "1")
    assert hunt.returncode == 0, hunt.stdout + hunt.stderr
    assert "seed 1, without" in hunt.stdout
    assert "REPLAY_AGREES" in hunt.stdout


def test_invalid_seed_options_are_rejected() -> None:
    for options in (("--seeds", "0"), ("--mutants", "", "--seeds", "0"), ("--seed", "1", "--first", "1")):
        rejected = simulate(*options)
        assert (rejected.returncode, rejected.stdout) == (2, "")
        assert rejected.stderr.count("\n") == 1
