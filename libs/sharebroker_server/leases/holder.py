"""Holds the leases of one broker: claims, renews, hands over and loses them.

Theory of operation
-------------------

Model.  A resource (a coordinator shard, a topic partition, the catalog) has at most one owner at a time. The
lease store keeps one lease per resource: owner, epoch, expiry. Time in the store is the store's own clock. A
lease is *held* here from a claim until it is released, lost to another owner, or no longer certain to be
valid by the local clock.

Epochs.  Every change of owner increases the epoch, and so does a re-claim by the same owner. Each write to a
log carries the epoch of its writer, and the store rejects a write with an older epoch (fencing). So
correctness never depends on clocks: the writes of a former owner that has not detected its loss are rejected.
Clocks only decide how soon a dead owner is replaced, and how long an owner may serve reads from memory.

Validity.  A lease counts as valid for `ttl` seconds from *before* the claim or renewal was sent. It therefore
ends here before it ends in the store, and two brokers never serve the resource at the same time.

Reconciliation.  The loop calls `reconcile` every interval, and earlier when it is woken:
  1. drop leases that are no longer certain to be valid by the local clock;
  2. renew all leases (every third of `ttl`), or send a heartbeat;
  3. read the members; their change moves preferred owners (see `placement`);
  4. hand over leases that another member should own, if the members changed or step 2 renewed the leases;
  5. claim leases that this member should own, unless a peer still holds them (`_takeovers`).
Step 1 comes first because an expired lease must not be renewed: another broker may have owned the resource in
the meantime, under a higher epoch.

Failure detection.  `ClusterMembership` marks peers dead whose heartbeats stopped and whose ports refuse
connections. Their leases count as free: the successor of a dead member releases them on its behalf, then
claims them. A member that was marked dead by mistake detects it at its next heartbeat and loses all of its
leases at once.

Hand-over.  `on_lost` runs first, while the lease is still held, so that pending writes complete. Then the
lease is released, and the successor claims it at its next round. A broker that shuts down first publishes its
leave notice, so that peers are ready, and hands over the kinds in reverse order of registration: leaders
finish their writes while the coordinators that persist them are still available.

Order.  All steps of one resource (claim, `on_acquired`, `on_lost`, release) run one after another in the
order of their decisions. Steps of different resources, and renewals, run concurrently.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic
from typing import Final, NamedTuple

import structlog
from typing_extensions import override

from sharebroker_protocol.cancellation import end
from sharebroker_server.aio import SerialExecutor, Turns
from sharebroker_server.leases.membership import (
    ClaimLog,
    ClusterMembership,
    FailureDetector,
    OutageLog,
    log_expired,
)
from sharebroker_server.leases.names import kind_of
from sharebroker_server.leases.placement import Placement, ResourceKind, succeeds
from sharebroker_server.leases.port import (
    ClusterMember,
    Lease,
    LeaseLost,
    LeaseStore,
    LeasesUnavailable,
    Ownership,
)

_log = structlog.get_logger()


LEASES_AT_ONCE: Final = 500
"""Leases that are renewed, or compared with their placement, in one turn of the event loop."""


class HeldLease(NamedTuple):
    """A lease that this broker holds: its epoch, and until when it is certain to be valid."""

    epoch: int
    valid_until: float


class LeaseHolder:
    """The leases of one broker. `ttl` is the life of a lease in seconds; `clock` is monotonic.

    `partitions` returns the number of partitions of a topic id (see `Placement`). `acquired` and `released`
    count leases by kind.
    """

    def __init__(
        self,
        store: LeaseStore,
        member: ClusterMember,
        ttl: float = 10.0,
        *,
        clock: Callable[[], float] = monotonic,
        failure_detector: FailureDetector | None = None,
        partitions: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self.member = member
        self.membership = ClusterMembership(store, member, ttl, failure_detector)
        self.acquired: Counter[str] = Counter()
        self.released: Counter[str] = Counter()
        self._store = store
        self._ttl = ttl
        self._clock = clock
        self._outage = OutageLog(clock)
        self._failed_claims = ClaimLog(clock)
        self._wake = asyncio.Event()
        self._kinds: dict[str, ResourceKind] = {}
        self._placement = Placement(member.owner, self._kinds, partitions)
        self._held: dict[str, HeldLease] = {}
        self._handing_over: set[str] = set()
        self._executor = SerialExecutor()
        self._turns = Turns()
        self._claims: dict[str, asyncio.Task[Lease]] = {}
        self._takeovers = set[str]()  # leases that this broker should own and a peer still holds
        self._owner_cache: dict[str, ClusterMember] = {}
        self._renew_at = 0.0
        self._may_be_misplaced = False
        self._loop_task: asyncio.Task[None] | None = None

    @property
    def clock_skew(self) -> float:
        """The time in seconds by which the clock of this process is ahead of the lease store's."""
        return self._store.clock_skew

    def register(
        self,
        resource_kind: str,
        resources: Callable[[], Iterable[str]],
        role: str,
        on_acquired: Callable[[str, int], Awaitable[None]],
        on_lost: Callable[[str], Awaitable[None]],
    ) -> None:
        """Registers the owner of a kind of resources; call it before `start`.

        `resources` lists the resources to claim without a request; it is empty for kinds claimed at first
        use. `on_acquired` gets the epoch; it should return soon and start longer work in the background.
        `on_lost` ends all work on the resource. During a hand-over the lease is still held, and is released
        after `on_lost`.
        """
        self._kinds[resource_kind] = ResourceKind(resources, role, on_acquired, on_lost)

    def holds(self, resource: str) -> int | None:
        """Returns the epoch of a lease that is certain to be valid by the local clock, else None."""
        lease = self._held.get(resource)
        return lease.epoch if lease is not None and lease.valid_until > self._clock() else None

    def held(self) -> list[str]:
        """Returns the resources whose leases this broker holds."""
        return list(self._held)

    def missing(self) -> list[str]:
        """Returns the resources that this broker should own at all times and does not own."""
        listed = (resource for owner in self._kinds.values() for resource in owner.resources())
        return [r for r in listed if self._should_own(r) and self.holds(r) is None]

    @property
    def members(self) -> tuple[ClusterMember, ...]:
        """Live members, as of the last `reconcile`."""
        return self.membership.live

    async def start(self) -> None:
        """Announces the broker, claims free leases, and keeps them until `stop`."""
        await self._try_reconcile()
        await self._executor.drain()
        self._loop_task = asyncio.create_task(self._run())

    async def announce_leaving(self) -> None:
        """Claims nothing more, and returns when peers have read the leave notice. Call `stop` next."""
        await self.membership.announce_leaving(running=self._loop_task is not None)

    async def stop(self) -> None:
        """Announces the leave, ends the work on each resource, releases its lease, and withdraws."""
        if not self.membership.leaving:
            await self.announce_leaving()
        await end([self._loop_task] if self._loop_task is not None else [])
        await self.membership.stop_detection()
        await self._executor.drain()
        # Later kinds depend on earlier kinds: a leader finishes its writes while there are coordinators.
        for kind in reversed(self._kinds):
            for resource in [resource for resource in self._held if kind_of(resource) == kind]:
                self._executor.submit(resource, self._hand_over(resource))
            await self._executor.drain()
        await self.membership.withdraw()

    async def acquire(self, resource: str) -> Lease:
        """Returns the lease of a resource: ours, claimed if free and placed here, else that of its owner.

        For a free lease placed elsewhere, returns the preferred owner with epoch 0. Raises LeasesUnavailable,
        and any exception of `on_acquired`.
        """
        lease = self._held.get(resource)
        if lease is not None and lease.valid_until > self._clock() and resource not in self._executor:
            return Lease(resource, self.member.owner, lease.epoch, lease.valid_until - self._clock())
        if lease is not None and lease.valid_until <= self._clock():
            self._lose(resource)
        return await asyncio.shield(self._start_claim(resource))

    async def reclaim(self, resource: str) -> int:
        """Increases the epoch of a held lease, which fences our own writes of unknown outcome.

        Raises LeaseLost if another owner holds the lease, LeasesUnavailable.
        """
        sent = self._clock()
        lease = await self._store.claim(resource, self.member.owner, self._ttl, force=True)
        if lease.owner == self.member.owner and resource in self._held:
            self._held[resource] = HeldLease(lease.epoch, sent + self._ttl)
            return lease.epoch
        if lease.owner == self.member.owner:
            await self._store.release(resource, self.member.owner)
        self._lose(resource)
        raise LeaseLost(resource)

    async def drop(self, resource: str) -> None:
        """Ends the work on a deleted resource and deletes its lease. Raises LeasesUnavailable."""
        if resource in self._held:
            await asyncio.shield(self._executor.submit(resource, self._hand_over(resource)))
        await self._store.remove(resource)
        self.forget(resource)

    async def owner_of(self, resource: str) -> ClusterMember | None:
        """Returns the owner of a resource, or its successor; caches it until `forget`.

        Raises LeasesUnavailable.
        """
        owner = self._owner_cache.get(resource)
        if owner is None:
            owner = await self._look_up(resource)
            if owner is not None:
                self._owner_cache[resource] = owner
        return owner

    def known_owner(self, resource: str) -> ClusterMember | None:
        """Returns the cached owner of a resource, if any."""
        return self._owner_cache.get(resource)

    def forget(self, resource: str) -> None:
        """Removes the cached owner of a resource."""
        self._owner_cache.pop(resource, None)

    async def reconcile(self) -> None:
        """Runs one round of the loop (see the module docstring). Raises LeasesUnavailable."""
        self._drop_expired()
        if self._clock() >= self._renew_at:
            await self._renew()
        elif self.membership.needs_heartbeats:
            await self._announce()
        await self._refresh_members()
        if self._may_be_misplaced and not self.membership.leaving:
            self._may_be_misplaced = False
            await self._hand_over_misplaced()
        to_claim = self._to_claim()
        await self._refresh_takeovers(to_claim)
        for resource in self._to_claim() if to_claim else ():
            if resource not in self._takeovers:
                self._start_claim(resource)
        self.membership.detect_failures(on_dead=self._wake.set)

    async def _hand_over_misplaced(self) -> None:
        async for portion in self._turns.portions(list(self._held), LEASES_AT_ONCE):
            for resource in portion:
                if resource not in self._held or self._placement.is_ours(resource):
                    continue
                if resource not in self._executor:
                    self._executor.submit(resource, self._hand_over(resource))
                elif resource not in self._handing_over:
                    self._may_be_misplaced = True  # the next round hands it over

    def _should_own(self, resource: str) -> bool:
        """Returns whether the resource is placed here. A leaving member should own nothing."""
        return not self.membership.leaving and self._placement.is_ours(resource)

    def _to_claim(self) -> list[str]:
        """Returns the resources to own that are placed here and not held, with no step in progress."""
        listed = (resource for owner in self._kinds.values() for resource in owner.resources())
        idle = (r for r in listed if r not in self._held and r not in self._executor)
        return [resource for resource in idle if self._should_own(resource)]

    def _expect_takeover(self, resource: str) -> None:
        """Adds a lease that is being handed over or is about to expire; the next round runs early."""
        if not self._takeovers:
            asyncio.get_running_loop().call_later(self.membership.interval / 5, self._wake.set)
        self._takeovers.add(resource)

    async def _refresh_takeovers(self, to_claim: Iterable[str]) -> None:
        """Reduces `_takeovers` to the leases in `to_claim` that a live peer still holds.

        One read of the store. Raises LeasesUnavailable.
        """
        pending = [resource for resource in to_claim if resource in self._takeovers]
        self._takeovers.clear()
        free = (self.member.owner, *self.membership.dead)
        for lease in await self._store.read(pending) if pending else ():
            if lease is not None and lease.owner not in free and not succeeds(self.member.owner, lease.owner):
                self._expect_takeover(lease.resource)

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.membership.interval):
                    await self._wake.wait()
            self._wake.clear()
            await self._try_reconcile()

    async def _try_reconcile(self) -> None:
        try:
            await self.reconcile()
        except LeasesUnavailable as error:
            self._outage.failed(error)
            self._drop_expired()
        except Exception:
            _log.exception("lease reconciliation failed")
        else:
            self._outage.succeeded()

    async def _announce(self) -> None:
        if await self.membership.announce():
            _log.warning("declared dead by a peer; leases may have been taken over")
            for resource in list(self._held):
                self._lose(resource)

    async def _renew(self) -> None:
        """Announces the broker and extends all leases.

        The next renewal follows after a third of `ttl`, or in the next round after a failure. Each one also
        compares the leases with their placement: a topic may have more partitions, and a claim that was in
        flight may be older than a change of the members.
        """
        sent = self._clock()
        self._may_be_misplaced = True
        await self._announce()
        epochs = {resource: lease.epoch for resource, lease in self._held.items()}
        renewed = await self._store.renew(epochs, self.member.owner, self._ttl)
        if None not in renewed:
            self._renew_at = sent + self._ttl / 3
        async for portion in self._turns.portions(zip(epochs.items(), renewed, strict=True), LEASES_AT_ONCE):
            for (resource, epoch), ours in portion:
                current = self._held.get(resource)
                if current is None or current.epoch != epoch:
                    continue  # lost or claimed again while the renewal was in flight
                if ours:
                    self._held[resource] = HeldLease(epoch, sent + self._ttl)
                elif ours is not None:
                    self._lose(resource)
                # None: no response from the store; the lease remains valid until it expires

    async def _refresh_members(self) -> None:
        if await self.membership.refresh():
            live = self.membership.by_owner
            self._placement.update(live)
            self._may_be_misplaced = True
            self._owner_cache = {r: owner for r, owner in self._owner_cache.items() if owner.owner in live}

    def _drop_expired(self) -> None:
        now = self._clock()
        expired = [r for r, lease in self._held.items() if lease.valid_until <= now]
        log_expired(expired)
        for resource in expired:
            self._lose(resource)

    def _lose(self, resource: str) -> None:
        if self._held.pop(resource, None) is not None and resource not in self._handing_over:
            self.released[kind_of(resource)] += 1
            self._executor.submit(resource, self._close(resource))

    async def _close(self, resource: str) -> None:
        self.forget(resource)
        try:
            await self._kinds[kind_of(resource)].on_lost(resource)
        except Exception:
            _log.exception("closing a lost resource failed", resource=resource)

    async def _hand_over(self, resource: str) -> None:
        if resource not in self._held:
            return
        self._handing_over.add(resource)
        await self._close(resource)
        self._handing_over.discard(resource)
        self.released[kind_of(resource)] += 1
        self._held.pop(resource, None)
        try:
            await self._store.release(resource, self.member.owner)
        except LeasesUnavailable:
            _log.info("lease release failed; the lease will expire", resource=resource)

    def _start_claim(self, resource: str) -> asyncio.Task[Lease]:
        """Returns the claim in flight, or submits a new one after the resource's other steps."""
        claim = self._claims.get(resource)
        if claim is None:
            claim = self._claims[resource] = self._executor.submit(resource, self._claim(resource))
            claim.add_done_callback(lambda task: self._claim_ended(resource, task))
        return claim

    def _claim_ended(self, resource: str, claim: asyncio.Task[Lease]) -> None:
        del self._claims[resource]
        error = None if claim.cancelled() else claim.exception()
        if isinstance(error, LeasesUnavailable):
            self._outage.failed(error)  # every request that needs a lease claims it: one line for all of them
        elif error is not None:
            self._failed_claims.failed(kind_of(resource), resource, error)

    async def _claim(self, resource: str) -> Lease:
        if not self.membership.by_owner:
            await self._refresh_members()
        if not self._should_own(resource):
            return await self._read_elsewhere(resource)
        sent = self._clock()
        # Forced: a new claim gets a new epoch even if the store still has our former lease.
        lease = await self._store.claim(resource, self.member.owner, self._ttl, force=True)
        if lease.owner in self.membership.dead:
            await self._store.release(resource, lease.owner)
            lease = await self._store.claim(resource, self.member.owner, self._ttl, force=True)
        if lease.owner != self.member.owner:
            self._expect_takeover(resource)
            return lease
        self._held[resource] = HeldLease(lease.epoch, sent + self._ttl)
        try:
            await self._kinds[kind_of(resource)].on_acquired(resource, lease.epoch)
        except Exception:
            self._held.pop(resource, None)
            with contextlib.suppress(LeasesUnavailable):
                await self._store.release(resource, self.member.owner)
            raise
        self.acquired[kind_of(resource)] += 1
        return lease

    async def _read_elsewhere(self, resource: str) -> Lease:
        [lease] = await self._store.read([resource])
        if lease is not None and lease.owner not in self.membership.dead:
            return lease
        successor = self._placement.owner(resource)
        return Lease(resource, successor.owner if successor is not None else "", 0, 0.0)

    async def _look_up(self, resource: str) -> ClusterMember | None:
        [lease] = await self._store.read([resource])
        members = self.membership.by_owner
        # Brokers start in any order: the owner, or the first candidate, may be newer than our view.
        if self._placement.owner(resource) is None or (lease is not None and lease.owner not in members):
            await self._refresh_members()
            members = self.membership.by_owner
        if lease is not None and lease.owner in members:
            owner = members[lease.owner]
            return None if owner.is_importing else owner
        successor = self._placement.owner(resource)
        # Only a later incarnation of its owner may claim a lease that has not expired.
        free = lease is None or lease.owner in self.membership.dead
        free = free or (
            lease is not None and successor is not None and succeeds(successor.owner, lease.owner)
        )
        return successor if free else None


class LeaseOwnership(Ownership):
    """`Ownership` of one resource, backed by a `LeaseHolder`."""

    def __init__(self, holder: LeaseHolder, resource: str) -> None:
        self._holder = holder
        self._resource = resource

    @override
    def holds(self, epoch: int) -> bool:
        return self._holder.holds(self._resource) == epoch

    @override
    async def reclaim(self) -> int:
        return await self._holder.reclaim(self._resource)
