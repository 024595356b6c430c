# Sharebroker. `make run` and `make test` set themselves up; `make help` lists the rest.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup run test test-fast check format proto bench clean lock grpcurl

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: $(READY) ## make the virtual environment from the lock file

$(READY): requirements.lock pyproject.toml libs/python_client/pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: apt-get install python3.11 python3.11-venv"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is needed: apt-get install python3-venv"; exit 2; }
	@echo "Installing the locked packages into $(VENV) ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e . -e libs/python_client
	@touch $@

run: $(READY) ## serve, and work off 336,776 flights with eight processes (ONCE=1: exit after the verdict)
	@$(BIN)/python -m services.flights $(if $(ONCE),--once)

test: $(READY) ## run all tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-fast: $(READY) ## run the pure tests only (seconds)
	$(BIN)/python -m pytest tests/unit tests/property tests/scenarios -q

check: $(READY) ## format, lint, types, import contracts, protos, generated code current
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	$(BIN)/python -m protos.generate --check

bench: $(READY) ## measure speed beside raw Redis (about five minutes; BENCH=--quick for one short run)
	@$(BIN)/python -m tests.perf.bench $(BENCH)

format: $(READY) ## format the code and mend what lint can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

proto: $(READY) ## generate the Python code of the protos
	$(BIN)/python -m protos.generate

grpcurl: .cache/bin/grpcurl ## build grpcurl for the tests that use it (needs Go; about a minute)

.cache/bin/grpcurl:
	GOBIN=$(CURDIR)/.cache/bin go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4

lock: $(READY) ## resolve the dependencies again into requirements.lock (needs uv)
	uv pip compile --generate-hashes --no-emit-index-url --no-header --no-annotate --universal --python-version 3.11 \
	  --all-extras pyproject.toml libs/python_client/pyproject.toml --no-emit-package sharebroker -o requirements.lock

clean: ## remove the environment and caches (data stays)
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
