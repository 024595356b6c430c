"""Keeps the leases of one process: announces it, claims what it should own, renews, hands over.

All steps of one resource (claim, acquired, lost, hand-over) run one after another in the order they were
decided; steps of different resources, and the renewals, do not wait for each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic
from typing import Final

from sharebroker_protocol.cancellation import end
from sharebroker_server.leases.awaited import Awaited
from sharebroker_server.leases.failure_detector import BEAT, Deaths
from sharebroker_server.leases.holdings import Holding, Watch
from sharebroker_server.leases.names import PARTITION, ROLES, kind_of, partitions, topic_partition
from sharebroker_server.leases.outage import Outage, tell_expired
from sharebroker_server.leases.port import Lease, LeaseStore, LeasesUnavailable, Member
from sharebroker_server.leases.rules import preferred, spread, succeeds
from sharebroker_server.leases.steps import Steps

log = logging.getLogger(__name__)

_NOTICE: Final = 4
"""Rounds in which every process hears of another's leave, and its clients do."""


class LeaseLost(Exception):
    """The resource belongs to another owner now."""


class LeaseHolder:
    """One a process. `ttl` (seconds) is the life of a lease; `clock` counts seconds and never goes back.

    `deaths` finds others that died; without it their leases run out. `partitions` tells how many a topic has,
    by its id: they are spread evenly; those of a topic it does not know (0) by their hashes.

    Validity is counted from before a claim or renewal was sent, so it ends here before it ends in the store.
    `taken` and `given` count leases by kind that came and went.
    """

    def __init__(
        self,
        store: LeaseStore,
        member: Member,
        ttl: float = 10.0,
        *,
        clock: Callable[[], float] = monotonic,
        deaths: Deaths | None = None,
        partitions: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self.member = member
        self._store = store
        self._ttl = ttl
        self._clock = clock
        self._outage = Outage(clock)
        self._deaths = deaths
        self._partitions = partitions
        self._turn = min(ttl / 10, BEAT)
        self._wake = asyncio.Event()
        self._search: asyncio.Task[None] | None = None
        self._gone: frozenset[str] = frozenset()
        self.taken: Counter[str] = Counter()
        self.given: Counter[str] = Counter()
        self._watches: dict[str, Watch] = {}
        self._held: dict[str, Holding] = {}
        self._members: dict[str, Member] = {}
        self._announced: tuple[Member, ...] = ()
        self._owners: dict[str, Member] = {}
        self._preferences: dict[str, tuple[int, Member | None]] = {}
        self._leaving: set[str] = set()
        self._steps = Steps()
        self._claims: dict[str, asyncio.Task[Lease]] = {}
        self._awaited = Awaited(self._wake.set, self._turn)
        self._renew_at = 0.0
        self._loop_task: asyncio.Task[None] | None = None
        self._stopping = False

    def watch(
        self,
        resource_kind: str,
        resources: Callable[[], Iterable[str]],
        role: str,
        on_acquired: Callable[[str, int], Awaitable[None]],
        on_lost: Callable[[str], Awaitable[None]],
    ) -> None:
        """Own the resources of a kind that are ours by rendezvous hashing; call before `start`.

        `resources` lists those to claim without being asked (none for kinds claimed at first use).
        `on_acquired` gets the epoch and should return soon, starting longer work by itself. `on_lost` ends
        all work on the resource; on a hand-over the lease is still held, and goes when it returns.
        """
        self._watches[resource_kind] = Watch(resources, role, on_acquired, on_lost)

    def holds(self, resource: str) -> int | None:
        """The epoch of a lease that is surely ours now, else None."""
        holding = self._held.get(resource)
        return holding.epoch if holding is not None and holding.valid_until > self._clock() else None

    def held(self) -> list[str]:
        """Resources whose leases we hold."""
        return list(self._held)

    def missing(self) -> list[str]:
        """Resources that are to be ours at all times and are not, or not yet."""
        wanted = (resource for watch in self._watches.values() for resource in watch.resources())
        return [r for r in wanted if self._should_own(r) and self.holds(r) is None]

    @property
    def members(self) -> tuple[Member, ...]:
        """Processes that are announced, as of the last round."""
        return self._announced

    async def start(self) -> None:
        """Announce, claim what is free, and keep at it until `stop`."""
        await self._try_round()
        await self._steps.settle()
        self._loop_task = asyncio.create_task(self._keep())

    async def give_notice(self) -> None:
        """Take nothing more, and return when others know that they are to take over; `stop` comes next."""
        self._stopping = True
        heirs = (member for member in self._announced if member.owner != self.member.owner)
        if self._loop_task is None or not any(member.roles & self.member.roles for member in heirs):
            return
        try:
            await self._announce()
        except LeasesUnavailable:
            log.info("could not give notice; others will see this member expire")
        else:
            await asyncio.sleep(_NOTICE * self._turn)

    async def stop(self) -> None:
        """Hand everything over: tell others, let each resource finish its work, release it, withdraw."""
        if not self._stopping:
            await self.give_notice()
        await end([task for task in (self._loop_task, self._search) if task is not None])
        await self._steps.settle()
        # What the later kinds stand on goes last: a leader finishes its writes while there are coordinators.
        for kind in reversed(self._watches):
            for resource in [resource for resource in self._held if kind_of(resource) == kind]:
                self._steps.add(resource, self._hand_over(resource))
            await self._steps.settle()
        with contextlib.suppress(LeasesUnavailable):
            await self._store.withdraw(self.member.owner)

    async def acquire(self, resource: str) -> Lease:
        """The lease of a resource: ours, claimed if it should be ours and was free, else its holder's.

        When nobody holds it and another member should, that member with epoch 0. Raises LeasesUnavailable,
        and whatever `on_acquired` raised.
        """
        holding = self._held.get(resource)
        if holding is not None and holding.valid_until > self._clock() and resource not in self._steps:
            return Lease(resource, self.member.owner, holding.epoch, holding.valid_until - self._clock())
        if holding is not None and holding.valid_until <= self._clock():
            self._lose(resource)
        return await asyncio.shield(self._claiming(resource))

    async def reclaim(self, resource: str) -> int:
        """Raise the epoch of a lease we hold, so that our own writes of unknown outcome cannot come later.

        Raises LeaseLost when it is another's by now, LeasesUnavailable.
        """
        sent = self._clock()
        lease = await self._store.claim(resource, self.member.owner, self._ttl, force=True)
        if lease.owner == self.member.owner and resource in self._held:
            self._held[resource] = Holding(lease.epoch, sent + self._ttl)
            return lease.epoch
        if lease.owner == self.member.owner:
            await self._store.release(resource, self.member.owner)
        self._lose(resource)
        raise LeaseLost(resource)

    async def drop(self, resource: str) -> None:
        """End the work on a resource that is no more, and forget its lease. Raises LeasesUnavailable."""
        if resource in self._held:
            await asyncio.shield(self._steps.add(resource, self._hand_over(resource)))
        await self._store.remove(resource)
        self.forget(resource)

    async def owner_of(self, resource: str) -> Member | None:
        """Who owns a resource, or should: remembered until `forget`. Raises LeasesUnavailable."""
        known = self._owners.get(resource)
        if known is None:
            known = await self._look_up(resource)
            if known is not None:
                self._owners[resource] = known
        return known

    def known_owner(self, resource: str) -> Member | None:
        """As `owner_of`, where nobody need be asked; None where that is not so."""
        return self._owners.get(resource)

    def forget(self, resource: str) -> None:
        """Ask the store next time: the remembered owner said that it is not."""
        self._owners.pop(resource, None)

    async def round(self) -> None:
        """One turn of the loop: renew, see who is there, hand over, claim. Raises LeasesUnavailable."""
        self._drop_expired()
        if self._clock() >= self._renew_at:
            await self._renew()
        elif self._deaths is not None:
            await self._announce()
        await self._refresh_members()
        given_up = () if self._stopping else self._held
        for resource in [r for r in given_up if r not in self._steps and not self._should_own(r)]:
            self._steps.add(resource, self._hand_over(resource))
        wanted = self._wanted()
        await self._awaited.look(self._store, wanted, self.member.owner, self._gone)
        for resource in self._wanted() if wanted else ():
            if resource not in self._awaited:
                self._claiming(resource)
        if self._deaths is not None and (self._search is None or self._search.done()):
            self._search = asyncio.create_task(self._find_deaths(self._deaths))

    def _wanted(self) -> list[str]:
        """What should be ours at all times, is not, and nothing is done about yet."""
        listed = (resource for watch in self._watches.values() for resource in watch.resources())
        idle = (r for r in listed if r not in self._held and r not in self._steps)
        return [resource for resource in idle if self._should_own(resource)]

    async def _keep(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._turn):
                    await self._wake.wait()
            self._wake.clear()
            await self._try_round()

    async def _find_deaths(self, deaths: Deaths) -> None:
        with contextlib.suppress(LeasesUnavailable):
            if await deaths.find(self.member.owner):
                self._wake.set()

    async def _try_round(self) -> None:
        try:
            await self.round()
        except LeasesUnavailable as error:
            self._outage.failed(error)
            self._drop_expired()
        except Exception:
            log.exception("a round of leases failed")
        else:
            self._outage.ended()

    async def _announce(self) -> None:
        me = self.member.on_leave() if self._stopping else self.member
        if await self._store.announce(me, self._ttl):
            log.warning("others found this process dead, and may have taken its leases")
            for resource in list(self._held):
                self._lose(resource)

    async def _renew(self) -> None:
        """Announce and extend all at once; due again in a third of a lease's life, and on failure at once."""
        sent = self._clock()
        await self._announce()
        before = dict(self._held)
        epochs = {resource: holding.epoch for resource, holding in before.items()}
        kept = await self._store.renew(epochs, self.member.owner, self._ttl)
        if None not in kept:
            self._renew_at = sent + self._ttl / 3
        for (resource, holding), ours in zip(before.items(), kept, strict=True):
            current = self._held.get(resource)
            if current is None or current.epoch != holding.epoch:
                continue  # lost or claimed anew while the renewal was under way
            if ours:
                self._held[resource] = Holding(holding.epoch, sent + self._ttl)
            elif ours is not None:  # nobody says so of what is kept where nobody answers: its time runs on
                self._lose(resource)

    async def _refresh_members(self) -> None:
        known = await self._store.members()
        members = {member.owner: member for member in known if not member.gone}
        gone = frozenset(member.owner for member in known if member.gone)
        if members != self._members or gone != self._gone:
            self._members, self._gone = members, gone
            self._announced = tuple(members.values())
            self._preferences.clear()
            self._owners = {r: owner for r, owner in self._owners.items() if owner.owner in members}

    def _drop_expired(self) -> None:
        now = self._clock()
        expired = [r for r, holding in self._held.items() if holding.valid_until <= now]
        tell_expired(expired)
        for resource in expired:
            self._lose(resource)

    def _lose(self, resource: str) -> None:
        if self._held.pop(resource, None) is not None and resource not in self._leaving:
            self.given[kind_of(resource)] += 1
            self._steps.add(resource, self._tell_lost(resource))

    async def _tell_lost(self, resource: str) -> None:
        self.forget(resource)
        try:
            await self._watches[kind_of(resource)].on_lost(resource)
        except Exception:
            log.exception("giving up %s failed", resource)

    async def _hand_over(self, resource: str) -> None:
        if resource not in self._held:
            return
        self._leaving.add(resource)
        await self._tell_lost(resource)
        self._leaving.discard(resource)
        self.given[kind_of(resource)] += 1
        self._held.pop(resource, None)
        try:
            await self._store.release(resource, self.member.owner)
        except LeasesUnavailable:
            log.info("could not release %s; it will expire", resource)

    async def _claim(self, resource: str) -> Lease:
        if not self._members:
            await self._refresh_members()
        if not self._should_own(resource):
            return await self._elsewhere(resource)
        sent = self._clock()
        # By force: what we acquire anew gets a new epoch, also where the store still has our old lease.
        lease = await self._store.claim(resource, self.member.owner, self._ttl, force=True)
        if lease.owner in self._gone:
            await self._store.release(resource, lease.owner)
            lease = await self._store.claim(resource, self.member.owner, self._ttl, force=True)
        if lease.owner != self.member.owner:
            self._awaited.add(resource)
            return lease
        self._held[resource] = Holding(lease.epoch, sent + self._ttl)
        try:
            await self._watches[kind_of(resource)].on_acquired(resource, lease.epoch)
        except Exception:
            self._held.pop(resource, None)
            with contextlib.suppress(LeasesUnavailable):
                await self._store.release(resource, self.member.owner)
            raise
        self.taken[kind_of(resource)] += 1
        return lease

    async def _elsewhere(self, resource: str) -> Lease:
        [lease] = await self._store.read([resource])
        if lease is not None and lease.owner not in self._gone:
            return lease
        candidate = self._preferred(resource)
        return Lease(resource, candidate.owner if candidate is not None else "", 0, 0.0)

    async def _look_up(self, resource: str) -> Member | None:
        [lease] = await self._store.read([resource])
        # Somebody we do not know yet owns it, or could: processes of a cluster start in any order.
        if self._preferred(resource) is None or (lease is not None and lease.owner not in self._members):
            await self._refresh_members()
        if lease is not None and lease.owner in self._members:
            return self._members[lease.owner]
        heir = self._preferred(resource)
        # Only a later incarnation of its owner may claim a lease that has not run out.
        free = lease is None or lease.owner in self._gone
        free = free or (lease is not None and heir is not None and succeeds(heir.owner, lease.owner))
        return heir if free else None

    def _should_own(self, resource: str) -> bool:
        if self._stopping or kind_of(resource) not in self._watches:
            return False
        candidate = self._preferred(resource)
        return candidate is not None and candidate.owner == self.member.owner

    def _preferred(self, resource: str) -> Member | None:
        kind = kind_of(resource)
        topic_id = topic_partition(resource)[0] if kind == PARTITION else ""
        size = self._partitions(topic_id) if topic_id else 0
        known = self._preferences.get(resource)
        if known is None or known[0] != size:
            watch, members = self._watches.get(kind), self._members.values()
            role = watch.role if watch is not None else ROLES.get(kind, "")
            shards = sorted(watch.resources()) if watch is not None else []
            owners = spread(partitions(topic_id, size) if size else shards, role, members)
            self._preferences |= {each: (size, member) for each, member in owners.items()}
            if resource not in owners:
                self._preferences[resource] = size, preferred(resource, role, members)
        return self._preferences[resource][1]

    def _claiming(self, resource: str) -> asyncio.Task[Lease]:
        """The claim under way, or a new one behind the resource's other steps."""
        claim = self._claims.get(resource)
        if claim is None:
            claim = self._claims[resource] = self._steps.add(resource, self._claim(resource))
            claim.add_done_callback(lambda task: self._claimed(resource, task))
        return claim

    def _claimed(self, resource: str, claim: asyncio.Task[Lease]) -> None:
        del self._claims[resource]
        error = None if claim.cancelled() else claim.exception()
        if isinstance(error, LeasesUnavailable):
            self._outage.failed(error)  # every call that needs a lease claims it: one line for all of them
        elif error is not None:
            log.warning("claiming %s failed: %s", resource, error)
