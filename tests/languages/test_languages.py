"""A work-queue consumer in each language, on stubs of its own, against a live server."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from libs.testkit.brokers import Cluster
from tests.languages.build import LANGUAGES, Language
from tests.support.client import connected

TEXTS = [f"{'bad' if n % 10 == 3 else 'later' if n % 4 == 1 else 'good'} {n}" for n in range(40)]
PARTITIONS = 2
_TIME = 60.0


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
async def test_each_record_is_answered_for_and_finished(cluster: Cluster, language: Language) -> None:
    if not language.steps:
        language.build()
    if not language.built:
        pytest.skip(f"it is not built, or older than its source: make languages LANGUAGE={language.name}")
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create(PARTITIONS)
        group = await client.group()
        for number, text in enumerate(TEXTS):
            await client.publish(topic, [text], partition=number % PARTITIONS)
        command = [*language.command, cluster.address, group, topic, str(len(TEXTS))]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=language.folder, capture_output=True, text=True, timeout=_TIME
        )
        assert (done.returncode, done.stderr) == (0, "")
        seen = sorted((text, int(count)) for _, _, count, text in _lines(done.stdout))
        tries = {text: 2 if text.startswith("later") else 1 for text in TEXTS}
        assert seen == sorted((text, count + 1) for text in TEXTS for count in range(tries[text]))
        for partition in range(PARTITIONS):
            stored = await client.finished(group, topic_id, partition)
            assert stored == set(range(len(TEXTS) // PARTITIONS))


def _lines(output: str) -> list[list[str]]:
    return [line.split(" ", 3) for line in output.splitlines()]
