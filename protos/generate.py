"""Generates the Python code of the protos, or checks lint, compatibility and that the code is current.

python -m protos.generate            generate (protos.http makes what Envoy needs; `make proto` does both)
python -m protos.generate --check    lint, breaking changes against baseline.binpb, generated code current
python -m protos.generate --baseline accept today's protos as what later ones are compared with
"""

from __future__ import annotations

import filecmp
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE.parent / "libs" / "protocol"
PACKAGE = "sharebroker_protocol"
BASELINE = HERE / "baseline.binpb"
BIN = Path(sys.executable).parent
# Python module names: in import statements, and where protobuf registers the generated classes.
_MODULE = re.compile(
    r"((?:^|\n)(?:from|import) |_builder\.BuildTopDescriptorsAndMessages\(DESCRIPTOR, ')sharebroker\."
)


def protos() -> list[str]:
    """Proto files relative to this folder, sorted."""
    return sorted(str(path.relative_to(HERE)) for path in HERE.glob("sharebroker/**/*.proto"))


def generate(target: Path) -> None:
    """Writes `*_pb2.py`, `*_pb2_grpc.py` (for protos with a service) and their type stubs below `target`.

    protoc derives the Python package from the proto's path, `sharebroker/`. The code belongs to `PACKAGE`,
    so the files are moved there and their imports follow. Names on the wire stay `sharebroker.…`.
    """
    services = [name for name in protos() if "\nservice " in (HERE / name).read_text()]
    with tempfile.TemporaryDirectory() as folder:
        _protoc(f"--python_out={folder}", f"--mypy_out=quiet:{folder}", files=protos())
        _protoc(f"--grpc_python_out={folder}", f"--mypy_grpc_out=quiet:{folder}", files=services)
        for path in sorted((Path(folder) / "sharebroker").rglob("*_pb2*")):
            written = target / PACKAGE / path.relative_to(Path(folder) / "sharebroker")
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(_MODULE.sub(rf"\1{PACKAGE}.", path.read_text()))


def check() -> bool:
    """Whether the protos are well formed and compatible, and the committed code is what they generate."""
    _buf("lint")
    _buf("format", "--diff", "--exit-code")
    _buf("breaking", "--against", str(BASELINE))
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = {path.relative_to(folder) for path in Path(folder).rglob("*_pb2*")}
        committed = {path.relative_to(TARGET) for path in TARGET.rglob("*_pb2*.py*") if path.suffix != ".pyc"}
        stale = sorted(
            name
            for name in fresh | committed
            if name not in committed
            or name not in fresh
            or not filecmp.cmp(Path(folder) / name, TARGET / name, shallow=False)
        )
    for name in stale:
        print(f"stale: {name}", file=sys.stderr)  # noqa: T201 - this is a command
    return not stale


def _protoc(*outputs: str, files: list[str]) -> None:
    plugins = [f"--plugin={name}={BIN / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    _run(sys.executable, "-m", "grpc_tools.protoc", f"-I{HERE}", *plugins, *outputs, *files)


def _buf(*arguments: str) -> None:
    _run(str(BIN / "buf"), *arguments, cwd=HERE)


def _run(*command: str, cwd: Path | None = None) -> None:
    if subprocess.run(command, cwd=cwd, check=False).returncode != 0:
        raise SystemExit(1)


def main() -> None:
    """Runs the command line."""
    if "--baseline" in sys.argv:
        _buf("build", "-o", str(BASELINE))
    elif "--check" in sys.argv:
        if not check():
            raise SystemExit("run `make proto`")
    else:
        generate(TARGET)


if __name__ == "__main__":
    main()
