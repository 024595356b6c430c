"""The report of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.deployment import LEASE
from tests.chaos.faults import FREEZE, KILL, STOP
from tests.chaos.history import History
from tests.testkit.checker.events import Published, Verdict
from tests.testkit.checker.invariants import Violation


@dataclass(frozen=True)
class FaultResult:
    """A fault and its effect: the longest pause of each kind of work, and of any after it was healed.

    Times are seconds.
    """

    what: str
    kind: str
    at: float
    pauses: dict[str, float]
    back: float

    @property
    def pause(self) -> float:
        """Returns the longest pause."""
        return max(self.pauses.values(), default=0.0)

    def __str__(self) -> str:
        pauses = ", ".join(f"{actor} {pause:.2f}" for actor, pause in sorted(self.pauses.items()))
        return f"{self.what}: work continued after {self.pause:.2f} s ({pauses}); healed: {self.back:.2f} s"


@dataclass
class Outcome:
    """The end of a run; `clients` names the clients that took part."""

    history: History
    clients: str
    struck: list[FaultResult] = field(default_factory=list)
    quiet: list[float] = field(default_factory=list)
    """The longest pause of each period without a fault."""
    sent: int = 0
    failed: int = 0
    violation: Violation | None = None
    violation_events: list[str] = field(default_factory=list)
    """The events of the offset whose guarantee was broken."""
    failure: str = ""
    """The reason why the run could not proceed as planned."""
    lease: float = LEASE
    """Duration of a lease without renewal, in seconds."""

    @property
    def well(self) -> bool:
        """Returns whether all guarantees held and work always continued."""
        return self.violation is None and not self.failure


def report(outcome: Outcome) -> str:
    """Returns the complete report."""
    return "\n".join(_lines(outcome))


def _lines(outcome: Outcome) -> Iterator[str]:
    history = outcome.history
    published = sum(isinstance(event, Published) for event in history.events)
    yield outcome.clients
    yield (
        f"records: {outcome.sent} sent, {published} published, {outcome.failed} failed; confirmed: "
        f"{history.count(Verdict.ACCEPT)} accepted, {history.count(Verdict.REJECT)} rejected, "
        f"{history.count(Verdict.RELEASE)} released; delivered again: {sum(history.redelivered.values())}"
    )
    yield f"errors that clients received: {dict(history.surfaced) or 'none'}"
    yield f"{'faults':<38}{'times':>6}{'worst':>8}{'p95':>8}{'healed, worst':>18}  bound of the pause"
    kinds: defaultdict[str, list[FaultResult]] = defaultdict(list)
    for one in outcome.struck:
        kinds[one.kind].append(one)
    for kind, several in sorted(kinds.items()):
        pauses = [one.pause for one in several]
        yield _row(kind, pauses, [one.back for one in several]) + _bound(kind, pauses, outcome)
    yield _row("none", outcome.quiet, [])
    if outcome.failure:
        yield f"failure: {outcome.failure}"
    if outcome.violation is not None:
        yield f"broken: {outcome.violation}"
        yield from outcome.violation_events
    yield "verdict: " + ("every promise was kept" if outcome.well else "FAILED")


def _row(kind: str, pauses: Sequence[float], back: Sequence[float]) -> str:
    if not pauses:
        return kind
    again = f"{max(back):>16.2f} s" if back else ""
    return f"{kind:<38}{len(pauses):>6}{max(pauses):>6.2f} s{percentile(pauses, 95):>6.2f} s{again}"


def _bound(kind: str, pauses: Sequence[float], outcome: Outcome) -> str:
    """Returns how long work may pause for such a fault, and whether it did so.

    The worst pause without a fault is subtracted: it is the machine's part.
    """
    bounds = {KILL: (95, 3.0), FREEZE: (100, outcome.lease + 2.0), STOP: (100, 0.5)}
    percent, bound = bounds.get(kind.partition(" ")[0], (100, None))
    if bound is None:
        return ""
    pause = percentile(pauses, percent) - max(outcome.quiet, default=0.0)
    which = "" if percent == 100 else f" (p{percent})"
    return f"  {bound:.1f} s{which}: {'within' if pause <= bound else 'over'}"


def percentile(values: Sequence[float], percent: int) -> float:
    """Returns the smallest value that this percentage of values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
