"""A work-queue consumer in each language, on its own stubs, against a live server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.languages.build import LANGUAGES, Language
from tests.support.client import Client, connected
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.issuer import AUDIENCE, ISSUER, Issuer, jwk, jwk_set, token
from tests.testkit.secured import ADMIN, PASSWORD, Secured, secured
from tests.testkit.servers import free_port
from tests.testkit.waiting import eventually

TEXTS = [f"{'bad' if n % 10 == 3 else 'later' if n % 4 == 1 else 'good'} {n}" for n in range(40)]
PARTITIONS = 2
_TIME = 60.0

each_language = pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)


def start(language: Language, *words: str, **environment: str) -> subprocess.Popen[str]:
    """Starts the worker, if it is built."""
    if not language.steps:
        language.build()
    elif not language.built:
        pytest.skip(f"it is not built from the present sources: make languages LANGUAGE={language.name}")
    command = [*language.command, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=language.folder, stdout=pipe, stderr=pipe, text=True, env=os.environ | environment
    )


async def ended(worker: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Returns exit code and output, once it has ended."""
    try:
        output = await asyncio.to_thread(worker.communicate, timeout=_TIME)
    finally:
        worker.kill()
    return worker.returncode, *output


@each_language
async def test_each_record_is_acknowledged_and_finished(cluster: Cluster, language: Language) -> None:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create(PARTITIONS)
        group = await client.group()
        for number, text in enumerate(TEXTS):
            await client.publish(topic, [text], partition=number % PARTITIONS)
        code, out, err = await ended(start(language, cluster.address, group, topic, str(len(TEXTS))))
        assert (code, err) == (0, "")
        seen = sorted((text, int(count)) for _, _, count, text in _lines(out))
        tries = {text: 2 if text.startswith("later") else 1 for text in TEXTS}
        assert seen == sorted((text, count + 1) for text in TEXTS for count in range(tries[text]))
        for partition in range(PARTITIONS):
            stored = await client.finished(group, topic_id, partition)
            assert stored == set(range(len(TEXTS) // PARTITIONS))


@each_language
async def test_worker_ends_when_more_than_the_requested_count_is_finished(
    cluster: Cluster, language: Language
) -> None:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create()
        group = await client.group()
        await client.publish(topic, [f"good {n}" for n in range(100)])
        code, out, err = await ended(start(language, cluster.address, group, topic, "5"))
        assert (code, err) == (0, "")
        assert {int(offset) for _, offset, _, _ in _lines(out)} == await client.finished(group, topic_id)


@each_language
async def test_worker_exits_cleanly_on_a_signal(cluster: Cluster, language: Language) -> None:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create()
        group = await client.group()
        await client.publish(topic, ["good 0"])
        worker = start(language, cluster.address, group, topic, "1000")
        try:
            await eventually(lambda: _worked(client, group, topic_id), _TIME)
            worker.send_signal(signal.SIGTERM)
        finally:
            code, out, err = await ended(worker)
        assert (code, out, err) == (0, "0 0 1 good 0\n", "")


@each_language
@pytest.mark.parametrize(
    "words", [(), ("ADDRESS", "group", "topic", "many"), ("ADDRESS", "group", "topic", "1")]
)
async def test_errors_are_printed_in_one_line(language: Language, words: tuple[str, ...]) -> None:
    unused = f"127.0.0.1:{free_port()}"
    code, out, err = await ended(start(language, *(unused if word == "ADDRESS" else word for word in words)))
    assert code != 0
    assert (out, err.count("\n")) == ("", 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Issuer(jwk_set(jwk("RS256", "1"))).serving() as issuer:
        options = (
            "--set=sasl.enabled.mechanisms=SCRAM-SHA-256,OAUTHBEARER",
            f"--set=sasl.oauthbearer.jwks.endpoint.url={issuer.url}",
            f"--set=sasl.oauthbearer.expected.issuer={ISSUER}",
            f"--set=sasl.oauthbearer.expected.audience={AUDIENCE}",
        )
        with secured(one_process, tmp_path_factory.mktemp("secured"), *options) as made:
            yield made


@each_language
@pytest.mark.parametrize("secret", [f"{PASSWORD}\nmore", "token", "wrong"])
async def test_worker_authenticates_over_tls(
    place: Secured, language: Language, secret: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text(token() if secret == "token" else secret)
    environment = {"SHAREBROKER_CA": str(place.authority.file)}
    if secret == "token":
        environment["SHAREBROKER_TOKEN_FILE"] = str(file)
    else:
        environment |= {"SHAREBROKER_USER": ADMIN, "SHAREBROKER_PASSWORD_FILE": str(file)}
    async with connected(place.address()) as client:
        topic, _ = await client.create()
        group = await client.group()
        await client.publish(topic, ["good 0"])
        # Node warns about TLS to a numeric address.
        address = place.cluster.address.replace("127.0.0.1", "localhost")
        code, out, err = await ended(start(language, address, group, topic, "1", **environment))
    if secret == "wrong":
        assert code != 0
        assert (out, err.count("\n")) == ("", 1)
        assert "uthentication" in err
    else:
        assert (code, out, err) == (0, "0 0 1 good 0\n", "")


@each_language
async def test_secrets_are_not_sent_without_tls(cluster: Cluster, language: Language) -> None:
    words = (cluster.address, "group", "topic", "1")
    code, out, err = await ended(start(language, *words, SHAREBROKER_USER="alice"))
    assert code != 0
    assert (out, err.count("\n")) == ("", 1)
    assert "needs SHAREBROKER_CA" in err


async def _worked(client: Client, group: str, topic_id: str) -> bool:
    return await client.finished(group, topic_id) == {0}


def _lines(output: str) -> list[list[str]]:
    return [line.split(" ", 3) for line in output.splitlines()]
