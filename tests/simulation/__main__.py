"""`make simulate`: runs seeds, reports progress, and shows how to repeat a failure."""

from __future__ import annotations

import gc
import os
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing import Pool
from typing import Annotated, Final, NoReturn

import typer

from tests.simulation.cluster import quiet, simulate
from tests.simulation.drawing import drawn
from tests.simulation.mutants import MUTANTS
from tests.simulation.shrinking import shrink
from tests.testkit.checker.invariants import Invariant

_ORDER: Final = {"PYTHONHASHSEED": "0"}
"""Sets of strings have one order in all runs."""

_CHUNK: Final = 4
_CHUNKS: Final = 10
"""Runs per process; memory ends with the process, since collecting the garbage costs a seventh of the
time.
"""

_SHOWN: Final = 40
"""Lines of a failed run's history that are shown."""


def main(
    seeds: Annotated[int, typer.Option(help="How many runs.")] = 200,
    seed: Annotated[int | None, typer.Option(help="One run, with its complete history.")] = None,
    first: Annotated[
        int | None,
        typer.Option(help="The first seed; without it seeds are fresh, and begin at 0 for mutants."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="How many runs at once.")] = 1,
    without: Annotated[str, typer.Option(help="With --seed: parts of its plan to leave out, as f0,m1.")] = "",
    mutants: Annotated[
        str | None, typer.Option(help="Run the mutants whose name contains this text.")
    ] = None,
) -> None:
    """Simulates the whole system under faults; fails if an invariant was broken, or a mutant survived."""
    if os.environ.get("PYTHONHASHSEED") != _ORDER["PYTHONHASHSEED"]:
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], os.environ | _ORDER
        )
    _check(seeds, seed, first)
    _freeze_objects()
    chosen = [mutant.missing for mutant in MUTANTS if mutants is not None and mutants in mutant.missing]
    if seed is not None:
        with ExitStack() as stack:
            _break(chosen, stack)
            outcome = simulate(seed, drawn(seed).without(without.split(",")))
        typer.echo(outcome.text)
        _end([seed] if _failed(seed, outcome.failure) else [])
    if mutants is not None:
        _end(_detect(chosen, range(first or 0, (first or 0) + seeds), jobs))
    start = secrets.randbelow(10**9) if first is None else first
    _end(_run(range(start, start + seeds), jobs))


def _check(seeds: int, seed: int | None, first: int | None) -> None:
    """Exits with a sentence if the options contradict each other."""
    if seeds < 1:
        _refuse(f"runs must be at least 1, not {seeds}.")
    if seed is not None and first is not None:
        _refuse("--seed and --first exclude each other.")


def _refuse(sentence: str) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(2)


def _run(seeds: range, jobs: int) -> list[int]:
    """Returns the failed seeds."""
    failed: list[int] = []
    typer.echo(f"seeds {seeds.start} to {seeds.stop - 1}")
    begun = printed = time.monotonic()
    for done, (seed, failure) in enumerate(_outcomes(seeds, jobs), 1):
        if failure is not None:
            failed.append(seed)
            typer.echo(failure)
        now = time.monotonic()
        if now - printed >= 1.0 or done == len(seeds):
            printed = now
            rate = done / max(now - begun, 1e-9)
            typer.echo(f"{done} of {len(seeds)} runs, {len(failed)} failed, {rate:.0f} a second")
    return failed


def _outcomes(seeds: range, jobs: int) -> Iterator[tuple[int, str | None]]:
    with Pool(jobs, _freeze_objects, maxtasksperchild=_CHUNKS) as pool:
        yield from pool.imap_unordered(_one, seeds, chunksize=_CHUNK)


def _one(seed: int) -> tuple[int, str | None]:
    """Returns a seed, and the report if it failed."""
    failure = simulate(seed).failure
    return seed, None if failure is None else f"seed {seed}: {failure}\n{shortest(seed)}"


def shortest(seed: int) -> str:
    """Returns the end of a failing seed's history after shrinking its plan, and the command to repeat it."""
    missing, outcome = shrink(seed)
    again = f"make simulate SEED={seed}" + (f" WITHOUT={','.join(missing)}" if missing else "")
    tail = "\n".join(outcome.text.splitlines()[-_SHOWN:])
    return f"{tail}\n{outcome.failure}\n  repeat with: {again}\n"


def _detect(missing: Sequence[str], seeds: range, jobs: int) -> list[str]:
    """Returns the mutants that no seed detected, and the invariants that no mutant broke."""
    survivors, broken = list[str](), set[str]()
    with Pool(jobs, _freeze_objects, maxtasksperchild=1) as pool:
        for name, killed in pool.imap(partial(_killers, seeds=seeds), missing):
            typer.echo("\n  ".join((name, *(killed.values() or ("SURVIVED",)))))
            broken |= killed.keys()
            survivors += [] if killed else [name]
    if len(missing) == len(MUTANTS):
        kept = [promise.name for promise in Invariant if promise.name not in broken]
        typer.echo(f"{len(broken)} of {len(Invariant)} promises were broken by a mutant")
        survivors += [f"{name} was broken by none" for name in kept]
    return survivors


def _killers(missing: str, seeds: range) -> tuple[str, dict[str, str]]:
    """Returns the seeds that detect a mutant and it alone, by broken invariant.

    These are the first of all seeds, and the first for each invariant that the mutant has to break as well.
    """
    wanted = {promise.name for one in MUTANTS if one.missing == missing for promise in one.breaks}
    found: dict[str, str] = {}
    for seed in seeds:
        gc.collect()
        with ExitStack() as stack:
            _break([missing], stack)
            failure = simulate(seed).failure
            promise = str(failure).partition(":")[0]
            new = failure is not None and (not found or promise in wanted - found.keys())
            left_out, outcome = shrink(seed) if new else ([], None)
        if outcome is not None and simulate(seed).failure is None:
            found[promise] = f"seed {seed}, without {','.join(left_out)}: {outcome.failure}"
        if found and wanted <= found.keys():
            break
    return missing, found


def _break(missing: Sequence[str], stack: ExitStack) -> None:
    """Removes safeguards until the stack closes."""
    for mutant in MUTANTS:
        for broken in mutant.patches() if mutant.missing in missing else ():
            stack.enter_context(broken)


def _freeze_objects() -> None:
    """Freezes the objects that exist before any run: scanning them would take longer than a run."""
    quiet()
    gc.collect()
    gc.freeze()
    gc.disable()


def _failed(seed: int, failure: BaseException | None) -> bool:
    typer.echo(f"\nseed {seed}: {failure or 'all promises were kept'}")
    return failure is not None


def _end(failed: Sequence[object]) -> NoReturn:
    if failed:
        typer.echo(f"failed: {', '.join(map(str, failed))}")
    raise typer.Exit(bool(failed))


if __name__ == "__main__":
    typer.run(main)
