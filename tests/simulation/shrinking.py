"""Leaves out of a failing run what its failure does not need."""

from __future__ import annotations

from tests.simulation.cluster import Outcome, simulate
from tests.simulation.drawing import drawn


def shrink(seed: int) -> tuple[list[str], Outcome]:
    """The parts of the seed's plan that can be left out together, and the run without them.

    It breaks the same promise as the whole run. Raises ValueError where that keeps all promises.
    """
    plan = drawn(seed)
    best, missing = simulate(seed, plan), list[str]()
    if best.failure is None:
        raise ValueError(f"seed {seed} keeps all promises")
    faults = [part for part in plan.parts if part in plan.faults]
    for parts in (faults, *([part] for part in plan.parts)):
        if all(part in missing for part in parts):
            continue
        tried = simulate(seed, plan.without([*missing, *parts]))
        if _broken(tried) == _broken(best):
            best, missing = tried, [*missing, *parts]
    return missing, best


def _broken(outcome: Outcome) -> str:
    """What a run failed by; numbers and names of records may differ."""
    return str(outcome.failure).partition(";")[0]
