"""Keeps the leases of one process: announces it, claims what it should own, renews, hands over.

All steps of one resource (claim, acquired, lost, hand-over) run one after another in the order they were
decided; steps of different resources, and the renewals, do not wait for each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

from libs.leases.names import ROLES, kind_of
from libs.leases.port import Lease, LeaseStore, LeasesUnavailable, Member
from libs.leases.rules import preferred, succeeds

log = logging.getLogger(__name__)

T = TypeVar("T")


class LeaseLost(Exception):
    """The resource belongs to another owner now."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What a process does about the resources of one kind: which to own at all times, and whom to tell."""

    resources: Callable[[], Iterable[str]]
    role: str
    on_acquired: Callable[[str, int], Awaitable[None]]
    on_lost: Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Holding:
    """A lease we hold: its epoch, and until when it is surely ours by our clock."""

    epoch: int
    valid_until: float


class LeaseHolder:
    """One a process. `ttl` (seconds) is the life of a lease; `clock` counts seconds and never goes back.

    Validity is counted from before a claim or renewal was sent, so it ends here before it ends in the store.
    """

    def __init__(
        self, store: LeaseStore, member: Member, ttl: float = 10.0, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self.member = member
        self._store = store
        self._ttl = ttl
        self._clock = clock
        self._watches: dict[str, Watch] = {}
        self._held: dict[str, Holding] = {}
        self._members: dict[str, Member] = {}
        self._owners: dict[str, Member] = {}
        self._preferences: dict[str, Member | None] = {}
        self._leaving: set[str] = set()
        self._steps: dict[str, asyncio.Task[Any]] = {}
        self._claims: dict[str, asyncio.Task[Lease]] = {}
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

    @property
    def members(self) -> list[Member]:
        """Processes that are announced, as of the last round."""
        return list(self._members.values())

    async def start(self) -> None:
        """Announce, claim what is free, and keep at it until `stop`."""
        await self._try_round()
        await self._settle()
        self._loop_task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Hand everything over: withdraw, let each resource finish its work, release it."""
        self._stopping = True
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.gather(self._loop_task, return_exceptions=True)
        try:
            await self._store.withdraw(self.member.owner)
        except LeasesUnavailable:
            log.info("could not withdraw; others will see this member expire")
        await self._settle()
        for resource in list(self._held):
            self._step(resource, self._hand_over(resource))
        await self._settle()

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
            await asyncio.shield(self._step(resource, self._hand_over(resource)))
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

    def forget(self, resource: str) -> None:
        """Ask the store next time: the remembered owner said that it is not."""
        self._owners.pop(resource, None)

    async def round(self) -> None:
        """One turn of the loop: renew, see who is there, hand over, claim. Raises LeasesUnavailable."""
        self._drop_expired()
        if self._clock() >= self._renew_at:
            await self._renew()
        await self._refresh_members()
        for resource in [r for r in self._held if r not in self._steps and not self._should_own(r)]:
            self._step(resource, self._hand_over(resource))
        for watch in self._watches.values():
            for resource in watch.resources():
                if resource not in self._held and resource not in self._steps and self._should_own(resource):
                    self._claiming(resource)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._ttl / 10)
            await self._try_round()

    async def _try_round(self) -> None:
        try:
            await self.round()
        except LeasesUnavailable as error:
            log.warning("leases cannot be renewed: %s", error)
            self._drop_expired()
        except Exception:
            log.exception("a round of leases failed")

    async def _renew(self) -> None:
        """Announce and extend all at once; due again in a third of a lease's life, and on failure at once."""
        sent = self._clock()
        before = dict(self._held)
        await self._store.announce(self.member, self._ttl)
        kept = await self._store.renew(list(before), self.member.owner, self._ttl)
        self._renew_at = sent + self._ttl / 3
        for (resource, holding), ours in zip(before.items(), kept, strict=True):
            current = self._held.get(resource)
            if current is None or current.epoch != holding.epoch:
                continue  # lost or claimed anew while the renewal was under way
            if ours:
                self._held[resource] = Holding(holding.epoch, sent + self._ttl)
            else:
                self._lose(resource)

    async def _refresh_members(self) -> None:
        members = {member.owner: member for member in await self._store.members()}
        if members != self._members:
            self._members = members
            self._preferences.clear()
            self._owners = {r: owner for r, owner in self._owners.items() if owner.owner in members}

    def _drop_expired(self) -> None:
        now = self._clock()
        for resource in [r for r, holding in self._held.items() if holding.valid_until <= now]:
            log.warning("the lease of %s ran out before it could be renewed", resource)
            self._lose(resource)

    def _lose(self, resource: str) -> None:
        if self._held.pop(resource, None) is not None and resource not in self._leaving:
            self._step(resource, self._tell_lost(resource))

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
        if lease.owner != self.member.owner:
            return lease
        self._held[resource] = Holding(lease.epoch, sent + self._ttl)
        try:
            await self._watches[kind_of(resource)].on_acquired(resource, lease.epoch)
        except Exception:
            self._held.pop(resource, None)
            with contextlib.suppress(LeasesUnavailable):
                await self._store.release(resource, self.member.owner)
            raise
        return lease

    async def _elsewhere(self, resource: str) -> Lease:
        [lease] = await self._store.read([resource])
        if lease is not None:
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
        free = lease is None or (heir is not None and succeeds(heir.owner, lease.owner))
        return heir if free else None

    def _should_own(self, resource: str) -> bool:
        if self._stopping or kind_of(resource) not in self._watches:
            return False
        candidate = self._preferred(resource)
        return candidate is not None and candidate.owner == self.member.owner

    def _preferred(self, resource: str) -> Member | None:
        if resource not in self._preferences:
            watch = self._watches.get(kind_of(resource))
            role = watch.role if watch is not None else ROLES.get(kind_of(resource), "")
            self._preferences[resource] = preferred(resource, role, self._members.values())
        return self._preferences[resource]

    def _claiming(self, resource: str) -> asyncio.Task[Lease]:
        """The claim under way, or a new one behind the resource's other steps."""
        claim = self._claims.get(resource)
        if claim is None:
            claim = self._claims[resource] = self._step(resource, self._claim(resource))
            claim.add_done_callback(lambda task: self._claimed(resource, task))
        return claim

    def _claimed(self, resource: str, claim: asyncio.Task[Lease]) -> None:
        del self._claims[resource]
        if not claim.cancelled() and (error := claim.exception()) is not None:
            log.warning("claiming %s failed: %s", resource, error)

    def _step(self, resource: str, step: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a step once the resource's earlier steps are done."""
        before = self._steps.get(resource)
        task = asyncio.create_task(_after(before, step))
        self._steps[resource] = task
        task.add_done_callback(lambda done: self._forget_step(resource, done))
        return task

    def _forget_step(self, resource: str, done: asyncio.Task[Any]) -> None:
        if self._steps.get(resource) is done:
            del self._steps[resource]

    async def _settle(self) -> None:
        """Wait until no resource has a step to do."""
        while self._steps:
            await asyncio.wait(list(self._steps.values()))


async def _after(before: asyncio.Task[Any] | None, step: Coroutine[Any, Any, T]) -> T:
    if before is not None:
        await asyncio.wait([before])
    return await step
