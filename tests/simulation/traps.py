"""Faults that begin when a dead letter reaches a step."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leases import names
from tests.simulation.plan import QUEUE, Fault, Step, Trap
from tests.simulation.process import Surroundings
from tests.testkit.checker.events import Share

_METHOD: Final = "/AppendDeadLetters"


class Traps:
    """Observes the steps; `sprung` receives the fault of each trap, and the partition whose leader has it."""

    def __init__(self, around: Surroundings, traps: Iterable[Trap]) -> None:
        self.sprung: asyncio.Queue[tuple[Fault, str]] = asyncio.Queue()
        self._around = around
        self._traps = list(traps)
        self._reached: Counter[Step] = Counter()
        around.history.on_step = self._stored
        around.network.on_call = self._called

    def close(self) -> None:
        """Springs no further trap."""
        self._traps.clear()

    def _called(self, method: str, data: bytes) -> float:
        """Returns by how many seconds a request is late."""
        if not self._traps or not method.endswith(_METHOD):
            return 0.0
        request = pb.AppendDeadLettersRequest.FromString(data)
        source = names.partition(request.source_topic_id, request.source_partition)
        queue = names.partition(request.topic_id, request.partition)
        return self._reach(Step.SENT, source, queue)

    def _stored(self, step: Step, share: Share) -> None:
        topics = self._around.history.topics
        ids = {name: topic_id for topic_id, name in topics.items()}
        queue_id = ids.get(QUEUE)
        source = names.partition(ids[share.topic], share.partition)
        self._reach(step, source, source if queue_id is None else names.partition(queue_id, 0))

    def _reach(self, step: Step, source: str, queue: str) -> float:
        self._reached[step] += 1
        held = 0.0
        for trap in self._traps:
            if (trap.step, trap.number) == (step, self._reached[step]):
                held = max(held, trap.held)
                if held:
                    self._around.history.log(f"AppendDeadLetters is {held:.3f} s late")
                if trap.fault is not None:
                    self.sprung.put_nowait((trap.fault, queue if trap.at_queue else source))
        return held
