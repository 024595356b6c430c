"""HTTP/JSON by a transcoder: descriptors with our paths in them, and an OpenAPI description.

python -m protos.http            deploy/http/api.binpb, and deploy/http/openapi.json where its generator is
python -m protos.http --check    whether they are what deploy/http/api.yaml and the protos make today

The generator of OpenAPI is protoc-gen-openapiv2 of grpc-gateway: `make openapi` brings it (Go).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml
from google.api import annotations_pb2, http_pb2
from google.protobuf import any_pb2, descriptor_pb2, duration_pb2
from google.protobuf.json_format import ParseDict
from google.rpc import error_details_pb2, status_pb2
from grpc_tools import protoc

from protos.generate import HERE, protos

FOLDER: Final = HERE.parent / "deploy" / "http"
RULES: Final = FOLDER / "api.yaml"
DESCRIPTORS: Final = FOLDER / "api.binpb"
OPENAPI: Final = FOLDER / "openapi.json"
GENERATOR: Final = HERE.parent / ".cache" / "bin" / "protoc-gen-openapiv2"


def rules() -> dict[str, http_pb2.HttpRule]:
    """The rule of each method that has a path, by its full name."""
    listed: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["http"]["rules"]
    return {rule["selector"]: ParseDict(rule, http_pb2.HttpRule()) for rule in listed}


def descriptors() -> bytes:
    """All protos with the rules as options of their methods. Raises SystemExit where a rule has no method."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "api.binpb"
        _protoc("--include_imports", f"--descriptor_set_out={path}")
        found = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    # What refusals carry is in no proto of ours.
    for needed in (any_pb2, duration_pb2, error_details_pb2, status_pb2):
        if needed.DESCRIPTOR.name not in {file.name for file in found.file}:
            needed.DESCRIPTOR.CopyToProto(found.file.add())
    left = rules()
    for file in found.file:
        for service in file.service:
            for method in service.method:
                rule = left.pop(f"{file.package}.{service.name}.{method.name}", None)
                if rule is not None:
                    rule.ClearField("selector")
                    method.options.Extensions[annotations_pb2.http].CopyFrom(rule)
    if left:
        raise SystemExit(f"{RULES.name} names what no proto has: {', '.join(left)}")
    return found.SerializeToString(deterministic=True)


def openapi() -> str:
    """The description of the paths, with the protos' comments."""
    with tempfile.TemporaryDirectory() as folder:
        options = [f"grpc_api_configuration={RULES}", "allow_merge=true", "merge_file_name=api"]
        # A plugin written in Go requires package names, though no package is made.
        options += [*(f"M{each}={Path(each).parent}" for each in protos())]
        _protoc(f"--plugin={GENERATOR}", f"--openapiv2_out={','.join(options)}:{folder}")
        made: dict[str, Any] = json.loads((Path(folder) / "api.swagger.json").read_text())
    made["info"] = {"title": "Sharebroker", "version": "v1"}
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _protoc(*words: str) -> None:
    if protoc.main(["protoc", f"-I{HERE}", *words, *protos()]):
        raise SystemExit("protoc failed")


def main() -> None:
    """Runs the command line."""
    wanted = {DESCRIPTORS: descriptors()}
    if GENERATOR.exists():
        wanted[OPENAPI] = openapi().encode()
    if "--check" not in sys.argv:
        for path, content in wanted.items():
            path.write_bytes(content)
    elif stale := [path.name for path, content in wanted.items() if path.read_bytes() != content]:
        raise SystemExit(f"stale: {', '.join(stale)}; run `python -m protos.http`")


if __name__ == "__main__":
    main()
