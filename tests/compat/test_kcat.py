"""kcat as packaged by Debian (librdkafka 2.0): lists, writes and reads."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.client import unique
from tests.testkit.brokers import Cluster, one_process

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

pytestmark = [
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is missing: make kcat"),
    pytest.mark.xdist_group("kcat"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with one_process("--set", "auto.create.topics.enable=true", "--set", "num.partitions=2") as cluster:
        yield cluster


def kcat(server: Cluster, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = ["kcat", "-q", "-b", server.kafka, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=30)


def read(server: Cluster, topic: str, *arguments: str) -> list[str]:
    """Returns partition 0 from an offset to the end: offset, key, headers and value of each record."""
    form = ("-f", "%o %k %h %s\n")
    done = kcat(server, "-C", "-t", topic, "-p", "0", "-e", *form, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_written_records_are_read(server: Cluster) -> None:
    topic = unique("kcat")
    for compression in COMPRESSIONS:
        options = ("-p", "0", "-K:", "-H", f"packed={compression}", "-z", compression)
        done = kcat(server, "-P", "-t", topic, *options, stdin=f"key:{compression}\n:\n")
        assert (done.returncode, done.stderr) == (0, "")
    expected = [
        line
        for number, compression in enumerate(COMPRESSIONS)
        for line in (
            f"{2 * number} key packed={compression} {compression}",
            f"{2 * number + 1}  packed={compression} ",
        )
    ]
    assert read(server, topic, "-o", "beginning") == expected
    assert read(server, topic, "-o", "-3") == expected[-3:]
    assert read(server, topic, "-o", "4", "-c", "2") == expected[4:6]


def test_brokers_and_topics_are_listed(server: Cluster) -> None:
    topic = unique("kcat")
    kcat(server, "-P", "-t", topic, "-p", "1", stdin="here\n")
    listed = json.loads(kcat(server, "-L", "-J", "-t", topic).stdout)
    assert [broker["name"] for broker in listed["brokers"]] == [server.kafka]
    ((one),) = listed["topics"]
    assert (one["topic"], [partition["partition"] for partition in one["partitions"]]) == (topic, [0, 1])
    ends = [kcat(server, "-Q", "-t", f"{topic}:{partition}:-1").stdout for partition in (0, 1)]
    assert ends == [f"{topic} [0] offset 0\n", f"{topic} [1] offset 1\n"]


def test_transactional_records_are_read_after_the_commit(server: Cluster) -> None:
    topic = unique("kcat")
    done = kcat(server, "-P", "-t", topic, "-p", "0", "-X", f"transactional.id={topic}", stdin="one\ntwo\n")
    assert done.returncode == 0, done.stderr
    assert read(server, topic, "-X", "isolation.level=read_committed") == ["0   one", "1   two"]


def test_consumer_group_resumes_at_its_committed_offset(server: Cluster) -> None:
    topic, group = unique("kcat"), unique("group")
    kcat(server, "-P", "-t", topic, "-p", "0", stdin="one\ntwo\nthree\n")
    assert consume_in_group(server, group, topic, records=2) == ["one", "two"]
    assert consume_in_group(server, group, topic, records=1) == ["three"]


def consume_in_group(server: Cluster, group: str, topic: str, records: int) -> list[str]:
    """Returns the values that a new member of a consumer group reads before it leaves."""
    options = ("-X", "auto.offset.reset=earliest", "-c", str(records), "-f", "%s\n")
    done = kcat(server, "-G", group, topic, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
