"""Live members and port probes."""

from __future__ import annotations

from dataclasses import replace

from sharebroker_server.gateway.kafka.cluster_view.live_members import LiveMembers
from sharebroker_server.leases.port import Member
from tests.unit.gateway.kafka.api.harness import LOCAL, PEER


class Harness:
    """Members whose ports refuse connections if their address is in `refusing`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.members = [LOCAL, PEER]
        self.refusing: set[str] = set()
        self.probes: list[str] = []
        self.live_members = LiveMembers(lambda: self.members, self._refused, lambda: self.now)

    async def _refused(self, address: str) -> bool:
        self.probes.append(address)
        return address in self.refusing

    def live(self) -> list[Member]:
        return list(self.live_members.live())


async def test_a_member_whose_port_refuses_is_suspected_for_a_while() -> None:
    harness = Harness()
    harness.refusing = {PEER.address}
    await harness.live_members.probe([LOCAL, PEER])
    assert harness.live() == [LOCAL]
    assert harness.live_members.is_leaving(PEER)
    harness.now += 3.0
    assert harness.live() == [LOCAL, PEER]


async def test_a_probe_result_is_reused_for_a_moment() -> None:
    harness = Harness()
    await harness.live_members.probe([PEER])
    await harness.live_members.probe([PEER])
    assert harness.probes == [PEER.address]
    harness.now += 0.2
    await harness.live_members.probe([PEER])
    assert len(harness.probes) == 2


async def test_a_restarted_member_is_not_suspected() -> None:
    harness = Harness()
    harness.refusing = {PEER.address}
    await harness.live_members.probe([PEER])
    restarted = replace(PEER, owner="2/2")
    harness.members = [LOCAL, restarted]
    assert harness.live() == [LOCAL, restarted]


def test_an_announced_leave_is_a_leave() -> None:
    harness = Harness()
    harness.members = [LOCAL, PEER.as_leaving()]
    assert harness.live_members.is_leaving(PEER)
    assert not harness.live_members.is_leaving(LOCAL)
