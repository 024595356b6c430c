"""`sharebroker.testing.Server`: a server for the tests of an application."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharebroker import Admin, Producer, ShareConsumer
from sharebroker.testing import Server, ServerStartError, server

LOADED = (
    "import sys, sharebroker.testing.plugin; "
    "print({'grpc', 'sharebroker_server'} & set(sys.modules) or 'nothing')"
)

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server({"num.partitions": "3"}) as running:
        yield running


def test_record_is_consumed_from_a_new_topic_by_a_new_group(running: Server) -> None:
    topic, group = running.create_topic(), running.create_group()
    with Producer(running.address) as producer:
        producer.send(topic, b"one")
    with ShareConsumer(running.address, group, [topic]) as consumer:
        (record,) = consumer.poll(timeout=30)
        record.accept()
        (result,) = consumer.commit()
    assert (record.value, result.error) == (b"one", None)


def test_settings_are_broker_properties(running: Server) -> None:
    topic = running.create_topic(partitions=-1)
    with Admin(running.address) as admin:
        assert admin.describe_topic(topic).partitions == 3


def test_group_has_the_requested_configs(running: Server) -> None:
    group = running.create_group("billing", {"share.delivery.count.limit": "7"})
    with running.admin() as admin:
        configs = {config.name: config.value for config in admin.group_configs(group)}
    assert (group, configs["share.delivery.count.limit"]) == ("billing", "7")
    assert configs["share.auto.offset.reset"] == "earliest"


def test_log_and_kafka_address_are_available(running: Server) -> None:
    assert running.kafka != running.address
    assert running.kafka.startswith("127.0.0.1:")
    assert running.log


def test_second_start_is_rejected(running: Server) -> None:
    with pytest.raises(RuntimeError, match="runs already"):
        running.start()
    assert running.create_topic()


def test_stopped_server_leaves_no_folder_and_has_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Server() as stopped:
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
    assert stopped.log == ""
    for _ in range(2):
        with pytest.raises(RuntimeError, match="does not run"):
            assert stopped.address
        stopped.stop()


def test_invalid_setting_is_reported_with_the_servers_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ServerStartError, match=r"no\.such\.property"):
        Server({"no.such.property": "1"}).start()
    assert not list(tmp_path.iterdir())


def test_late_server_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ServerStartError, match=r"did not start in 0\.001 s"):
        Server(start_timeout=0.001).start()
    assert not list(tmp_path.iterdir())


def test_server_of_another_environment_is_found_by_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "find_spec", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda _: "/opt/bin/sharebroker")
    assert server.serve_command() == ["/opt/bin/sharebroker", "serve"]
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ServerStartError, match="not installed"):
        Server().start()


def test_plugin_loads_neither_the_client_nor_the_server() -> None:
    found = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "nothing"
