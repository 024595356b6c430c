"""Network namespaces for processes: an unplugged process is unreachable, and reachable again after plugging
in.
"""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.testkit.namespaces import machines, possible
from tests.testkit.waiting import until

ECHO = "import socket; s = socket.create_server(('', 7)); print(1, flush=True); c, _ = s.accept()\n"
ECHO += "while data := c.recv(100): c.sendall(data)"


def test_unplugged_namespace_is_unreachable_until_plugged_in() -> None:
    if not possible():
        pytest.skip("network namespaces need root, Linux and iproute2 (apt-get install iproute2)")
    with machines(2) as (_, [machine, _]):
        command = [*machine.prefix, sys.executable, "-c", ECHO]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"1\n"
                with socket.create_connection((machine.address, 7), timeout=30.0) as connection:
                    connection.sendall(b"a")
                    assert connection.recv(10) == b"a"
                    machine.unplug()
                    connection.sendall(b"b")
                    connection.settimeout(0.5)
                    with pytest.raises(TimeoutError):
                        connection.recv(10)
                    machine.plug()
                    connection.settimeout(60.0)
                    assert connection.recv(10) == b"b"
                until(lambda: process.poll() is not None, 30.0)
            finally:
                process.kill()
