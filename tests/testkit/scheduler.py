"""Distributes tests by groups as `--dist loadgroup` of pytest-xdist, also after a worker crashed.

pytest-xdist 3.8 gives the test that crashed a worker to the next one, and may leave a new worker without the
second test that it waits for, so that the run never ends.
"""

from __future__ import annotations

from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController


class GroupScheduling(LoadGroupScheduling):
    """Runs each test once: the test during which a worker crashed is not given to another worker."""

    def remove_node(self, node: WorkerController) -> str | None:
        """Returns the test that a worker which ended was running; other workers get its remaining tests."""
        workload: dict[str, dict[str, bool]] = self.assigned_work.pop(node)
        crashed = next((test for unit in workload.values() for test, done in unit.items() if not done), None)
        if crashed is None:
            return None
        workload[self._split_scope(crashed)][crashed] = True
        self.workqueue.update({scope: unit for scope, unit in workload.items() if not all(unit.values())})
        for other in self.nodes:
            self._reschedule(other)
        return crashed

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Gives a worker the next group; the last worker takes groups from the end.

        Tests with servers come first and wait often; tests of units come last and only compute. Together
        they use the processors better than one after the other.
        """
        if len(self.nodes) > 1 and node is self.nodes[-1]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def schedule(self) -> None:
        """Distributes tests to new workers: a worker starts a test once it has received the next one."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)
