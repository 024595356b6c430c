"""Removes from the plan of a failing run the parts that its failure does not need."""

from __future__ import annotations

from tests.simulation.cluster import Outcome, simulate
from tests.simulation.drawing import drawn


def shrink(seed: int) -> tuple[list[str], Outcome]:
    """Returns the parts of the seed's plan that can be removed together, and the run without them.

    It breaks the same invariant as the whole run. Raises ValueError if that breaks none.
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
    """Returns the invariant that a run broke; numbers and names of records may differ."""
    return str(outcome.failure).partition(";")[0]
