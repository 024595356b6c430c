"""HTTP/JSON through a real Envoy, with the README's own curl lines, against a live server."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from protos.http import DESCRIPTORS, FOLDER, OPENAPI, descriptors, rules
from sharebroker_protocol.errors import ErrorCode
from tests.architecture.sources import ROOT
from tests.support.client import connected
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.certificates import Authority
from tests.testkit.issuer import AUDIENCE, ISSUER, Issuer, jwk, jwk_set, token
from tests.testkit.secured import ADMIN, PASSWORD, secured
from tests.testkit.servers import free_port
from tests.testkit.waiting import until

ENVOY = ROOT / ".cache" / "bin" / "envoy"
SECONDS = 60.0
_EXAMPLE = re.compile(r"^```sh http\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TLS = re.compile(r"^```yaml tls\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DOCUMENTED = "127.0.0.1:8080"

needs_envoy = pytest.mark.skipif(
    not ENVOY.exists() or shutil.which("curl") is None,
    reason="Envoy or curl is not here: `make http` brings it",
)


def configuration(server: str, port: int) -> dict[str, Any]:
    """Returns the shipped configuration, with free ports."""
    text = (FOLDER / "envoy.yaml").read_text().replace("deploy/http/api.binpb", str(DESCRIPTORS))
    config: dict[str, Any] = yaml.safe_load(text)
    resources = config["static_resources"]
    resources["listeners"][0]["address"]["socket_address"]["port_value"] = port
    (endpoint,) = resources["clusters"][0]["load_assignment"]["endpoints"][0]["lb_endpoints"]
    endpoint["endpoint"]["address"]["socket_address"]["port_value"] = int(server.rpartition(":")[2])
    return config


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def address(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Provides the address of Envoy's listener, for the cluster."""
    with envoy(cluster.address, tmp_path_factory.mktemp("envoy")) as address:
        until(lambda: curl(f"{address}/v1/metadata")[0] == 200, SECONDS)
        yield address


@contextmanager
def envoy(server: str, folder: Path, tls: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Provides the address of Envoy's listener, for a server; `tls` is the TLS section of its cluster."""
    address, config = f"127.0.0.1:{free_port()}", folder / "envoy.yaml"
    settings = configuration(server, int(address.rpartition(":")[2]))
    settings["static_resources"]["clusters"][0] |= tls or {}
    config.write_text(yaml.safe_dump(settings))
    command = [str(ENVOY), "-c", str(config), "--concurrency", "1", "--disable-hot-restart", "-l", "error"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: process.poll() is not None or curl(f"{address}/v1/metadata")[0] != 0, SECONDS)
        assert process.poll() is None, (folder / "log").read_text()
        yield address
    finally:
        process.kill()
        process.wait()


def curl(address: str, *words: str) -> tuple[int, Any]:
    """Returns status and JSON."""
    command = ["curl", "-s", "-w", "\n%{http_code}", "--max-time", str(SECONDS), f"http://{address}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * SECONDS)
    body, _, status = done.stdout.rpartition("\n")
    return int(status or 0), json.loads(body) if body.startswith("{") else body


@needs_envoy
def test_documented_commands_work(address: str) -> None:
    (example,) = _EXAMPLE.findall((ROOT / "docs" / "grpc.md").read_text())
    script = ["bash", "-euo", "pipefail", "-c", example.replace(_DOCUMENTED, address)]
    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"text":"hello"' in done.stdout.replace(" ", "")


@needs_envoy
async def test_a_record_is_published_acquired_and_accepted(cluster: Cluster, address: str) -> None:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create(1)
        group = await client.group()
        record = json.dumps({"records": [{"text": "first"}, {"value": "c2Vjb25k"}]})
        status, body = curl(f"{address}/v1/topics/{topic}/records", "-d", record)
        assert (status, [one["offset"] for one in body["positions"]]) == (200, ["0", "1"])
        ask = {"topics": [topic], "maxRecords": 2, "maxWaitMs": 20_000, "memberId": "me", "asText": True}
        records: list[dict[str, Any]] = []
        while len(records) < 2:
            status, body = curl(f"{address}/v1/groups/{group}/acquire", "-d", json.dumps(ask))
            assert status == 200, body
            records += body["records"]
        assert [one["text"] for one in records] == ["first", "second"]
        names = ("topic", "offset", "lockToken")
        words = [
            {name: one[name] for name in names if name in one} | {"type": "ACKNOWLEDGE_TYPE_ACCEPT"}
            for one in records
        ]
        ask = {"memberId": "me", "acknowledgements": words}
        status, body = curl(f"{address}/v1/groups/{group}/acknowledge", "-d", json.dumps(ask))
        assert status == 200
        assert await client.finished(group, topic_id) == {0, 1}


@needs_envoy
@pytest.mark.parametrize(
    ("path", "body", "status", "reason", "message"),
    [
        (
            "/v1/topics/absent/records",
            '{"records": [{"text": "a"}]}',
            404,
            "UNKNOWN_TOPIC_OR_PARTITION",
            "absent",
        ),
        ("/v1/groups/a/acquire", '{"topics": []}', 400, "INVALID_REQUEST", "topic"),
        # Requests that Envoy rejects.
        ("/v1/nothing", None, 404, "INVALID_REQUEST", "/v1/nothing"),
        ("/v1/metadata?nothing=1", None, 400, "INVALID_REQUEST", "nothing"),
        ("/v1/topics", "{", 400, "INVALID_REQUEST", ""),
        ("/v1/topics/a/records", '{"records": [{"value": "*"}]}', 400, "INVALID_REQUEST", "records[0].value"),
        (
            "/v1/topics/a/records",
            '{"topic": "b", "records": [{"text": "a"}]}',
            400,
            "INVALID_REQUEST",
            "topic",
        ),
    ],
)
def test_errors_have_a_status_and_a_reason(
    address: str, path: str, body: str | None, status: int, reason: str, message: str
) -> None:
    response = curl(f"{address}{path}", *(["-d", body] if body is not None else []))
    assert response[0] == status, response
    assert reason_of(response[1]) == reason
    assert message in response[1]["message"]


@needs_envoy
@pytest.mark.parametrize("header", ["Expect:", "Transfer-Encoding: chunked"])
def test_oversized_body_is_rejected_and_not_buffered(address: str, tmp_path: Path, header: str) -> None:
    body = tmp_path / "body"
    body.write_text(json.dumps({"records": [{"text": "x" * 1_000_000}] * 20}))
    status, rejection = curl(f"{address}/v1/topics/a/records", "-H", header, "--data-binary", f"@{body}")
    assert (status, rejection["code"], reason_of(rejection)) == (413, 3, "MESSAGE_TOO_LARGE")
    assert "16777216" in rejection["message"]


@needs_envoy
def test_unavailable_server_is_reported_as_other_errors(tmp_path: Path) -> None:
    with envoy(f"127.0.0.1:{free_port()}", tmp_path) as address:
        status, rejection = curl(f"{address}/v1/groups/a/acquire", "-d", '{"topics": ["a"]}')
    assert (status, rejection["code"], reason_of(rejection)) == (503, 14, "NETWORK_EXCEPTION")


@needs_envoy
def test_tls_server_is_reached_with_the_documented_settings(tmp_path: Path) -> None:
    (example,) = _TLS.findall((FOLDER / "README.md").read_text())
    authority = Authority.make(tmp_path / "certificates")
    ours = authority.issue("ours", "broker.example", "127.0.0.1")
    for documented, file in (("ca.crt", authority.file), ("me.crt", ours.certificate), ("me.key", ours.key)):
        example = example.replace(f"filename: {documented}", f"filename: {file}")
    options = (f"--tls-cert={ours.certificate}", f"--tls-key={ours.key}", f"--tls-ca={authority.file}")
    with (
        one_process(*options, "--set=ssl.client.auth=required") as cluster,
        envoy(cluster.address, tmp_path, yaml.safe_load(example)) as address,
    ):
        until(lambda: curl(f"{address}/v1/metadata")[0] == 200, SECONDS)


@needs_envoy
def test_user_of_an_http_request_is_authenticated_by_the_server(tmp_path: Path) -> None:
    """Envoy forwards a password (Basic) and an access token (Bearer), valid or not."""
    (example,) = _TLS.findall((FOLDER / "README.md").read_text())
    with (
        Issuer(jwk_set(jwk("RS256", "1"))).serving() as issuer,
        secured(one_process, tmp_path / "secured", *_accepting_tokens(issuer)) as place,
    ):
        section = yaml.safe_load(example.replace("ca.crt", str(place.authority.file)))
        del section["transport_socket"]["typed_config"]["common_tls_context"]["tls_certificates"]
        with envoy(place.cluster.address, tmp_path, section) as address:
            user = ("-u", f"{ADMIN}:{PASSWORD}")
            until(lambda: curl(f"{address}/v1/metadata", *user)[0] == 200, SECONDS)
            assert curl(f"{address}/v1/metadata", *_bearer(token()))[0] == 200
            denied = [
                curl(f"{address}/v1/metadata", *words)
                for words in ((), ("-u", f"{ADMIN}:wrong"), _bearer(token(aud="another")))
            ]
    assert [(status, reason_of(body)) for status, body in denied] == [
        (401, "SASL_AUTHENTICATION_FAILED")
    ] * len(denied)


def _accepting_tokens(issuer: Issuer) -> tuple[str, ...]:
    return (
        "--set=sasl.enabled.mechanisms=OAUTHBEARER,SCRAM-SHA-256",
        f"--set=sasl.oauthbearer.jwks.endpoint.url={issuer.url}",
        f"--set=sasl.oauthbearer.expected.issuer={ISSUER}",
        f"--set=sasl.oauthbearer.expected.audience={AUDIENCE}",
    )


def _bearer(access_token: str) -> tuple[str, str]:
    return ("-H", f"Authorization: Bearer {access_token}")


@needs_envoy
async def test_dead_letters_are_read_redriven_and_discarded(cluster: Cluster, address: str) -> None:
    async with connected(cluster.address) as client:
        (source, _), (letters, _) = await client.create(1), await client.create(1)
        path = f"{address}/v1/topics/{letters}/deadLetters"
        assert curl(path) == (200, {"letters": [], "nextPageToken": "", "scanned": "0"})
        status, rejection = curl(f"{path}/0/7")
        assert (status, reason_of(rejection)) == (404, "RESOURCE_NOT_FOUND")
        records = {"records": [_letter(source, reason) for reason in ("no account", "timeout")]}
        assert curl(f"{address}/v1/topics/{letters}/records", "-d", json.dumps(records))[0] == 200

        status, body = curl(f"{path}?filter.reason=ACCOUNT&pageSize=10")
        assert (status, body["scanned"]) == (200, "2")
        (letter,) = body["letters"]
        assert (letter["groupId"], letter["sourceTopic"], letter["reason"]) == ("g", source, "no account")
        status, body = curl(f"{path}:summarize")
        assert (status, sorted(row["reason"] for row in body["rows"])) == (200, ["no account", "timeout"])
        status, body = curl(f"{path}/0/1")
        assert (status, base64.b64decode(body["value"])) == (200, b"timeout")
        ask = json.dumps({"filter": {"reason": "timeout"}, "toSourceTopic": True})
        for _ in range(2):
            status, body = curl(f"{path}:redrive", "-d", ask)
            assert (status, [one["copyOffset"] for one in body["results"]]) == (200, ["0"])
        status, body = curl(f"{path}:discard", "-d", "{}")
        assert (status, body["partitions"][0]["letters"]) == (200, "2")
        assert curl(path)[1]["letters"] == []


def _letter(source: str, reason: str) -> dict[str, Any]:
    facts = {"topic": source, "partition": "0", "offset": "0", "group": "g", "copy": "full", "reason": reason}
    headers = [
        {"key": f"__dlq.errors.{name}", "value": base64.b64encode(value.encode()).decode()}
        for name, value in facts.items()
    ]
    return {"text": reason, "partition": 0, "headers": headers}


def test_each_service_with_a_path_is_transcoded() -> None:
    (listener,) = configuration("127.0.0.1:9090", 8080)["static_resources"]["listeners"]
    filters = listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"]
    (services,) = (one["typed_config"]["services"] for one in filters if one["name"] == "json")
    assert sorted(services) == sorted({method.rpartition(".")[0] for method in rules()})


def test_envoy_forwards_the_authorization_of_requests() -> None:
    (listener,) = configuration("127.0.0.1:9090", 8080)["static_resources"]["listeners"]
    (connections,) = listener["filter_chains"][0]["filters"]
    manager = connections["typed_config"]
    (host,) = manager["route_config"]["virtual_hosts"]
    for part in (manager, manager["route_config"], host, *host["routes"]):
        assert "request_headers_to_remove" not in part
    assert [one["name"] for one in manager["http_filters"]] == ["bound", "json", "router"]


def reason_of(rejection: dict[str, Any]) -> str:
    """Returns the reason in an error's ErrorInfo."""
    info = rejection["details"][0]
    assert (info["@type"], info["domain"]) == ("type.googleapis.com/google.rpc.ErrorInfo", "sharebroker")
    assert info["metadata"]["kafka_error_code"] == str(ErrorCode[info["reason"]].value)
    return str(info["reason"])


def test_descriptors_match_the_protos() -> None:
    assert DESCRIPTORS.read_bytes() == descriptors(), "run `python -m protos.http`"


def test_every_path_is_described() -> None:
    described = json.loads(OPENAPI.read_text())["paths"]
    assert {rule.get or rule.post for rule in rules().values()} == {
        re.sub(r"\{(\w+)\}", lambda found: "{" + _snake(found[1]) + "}", path) for path in described
    }


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def test_every_path_describes_its_errors() -> None:
    described = json.loads(OPENAPI.read_text())
    calls = [call for path in described["paths"].values() for call in path.values()]
    assert {call["responses"]["default"]["schema"]["$ref"] for call in calls} == {
        "#/definitions/googlerpcStatus"
    }
    assert {"code", "message", "details"} == set(described["definitions"]["googlerpcStatus"]["properties"])
