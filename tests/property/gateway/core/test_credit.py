"""Credit is conserved: against a model in which every leader keeps its own count."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.gateway.core.credit import CreditSplit, Grants

LEADERS = st.sampled_from("ab")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), st.integers(-10, 20).filter(bool)),
        st.tuples(st.just("deliver"), LEADERS, st.integers(1, 12)),
        st.tuples(st.sampled_from(["add", "park", "remove"]), LEADERS),
        st.tuples(st.sampled_from(["rebalance", "hold", "release"])),
    ),
    min_size=15,
    max_size=60,
)


class Leaders:
    """The credit of each leader, from the changes it was sent."""

    def __init__(self) -> None:
        self.left: dict[str, int] = {}
        self.serving: set[str] = set()
        self.granted = 0
        self.delivered = 0

    def sent(self, grants: Grants[str]) -> None:
        assert len({leader for leader, _ in grants}) == len(grants)
        for leader, change in grants:
            assert change != 0
            self.left[leader] = self.left.get(leader, 0) + change


@given(STEPS)
def test_credit_is_conserved(steps: list[tuple[str, ...]]) -> None:
    credit: CreditSplit[str] = CreditSplit()
    model = Leaders()
    for step in steps:
        play(credit, model, *step)
        for leader in model.serving:
            assert credit.of(leader) == model.left.get(leader, 0)
        assert credit.pool + sum(model.left.values()) == model.granted - model.delivered - owed(model)
        if credit.held:
            assert all(model.left.get(leader, 0) <= 0 for leader in model.serving)
        elif model.serving:
            assert credit.pool <= 0  # no credit is unused while a leader could deliver with it


def owed(model: Leaders) -> int:
    """Returns deliveries of parked leaders beyond their credit: kept apart, offset when these resume."""
    return -sum(left for leader, left in model.left.items() if leader not in model.serving)


def play(credit: CreditSplit[str], model: Leaders, kind: str, *arguments: object) -> None:
    if kind == "grant":
        (records,) = arguments
        assert isinstance(records, int)
        model.granted += records
        model.sent(credit.grant(records))
    elif kind == "deliver":
        leader, records = arguments
        assert isinstance(leader, str)
        assert isinstance(records, int)
        if leader in model.left:
            model.left[leader] -= records
            model.delivered += records
            credit.delivered(leader, records)
    elif kind in ("rebalance", "hold", "release"):
        model.sent(getattr(credit, kind)())
    else:
        (leader,) = arguments
        assert isinstance(leader, str)
        change(credit, model, kind, leader)


def change(credit: CreditSplit[str], model: Leaders, kind: str, leader: str) -> None:
    if kind == "add":
        model.left.setdefault(leader, 0)
        model.serving.add(leader)
        model.sent(credit.add(leader))
    elif leader in model.serving:
        model.serving.discard(leader)
        if kind == "remove":
            del model.left[leader]
            model.sent(credit.remove(leader))
        else:
            model.sent(credit.park(leader))
