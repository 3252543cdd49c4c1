# Everything runs from a fresh clone with python3 (3.11 or later), make and git: the first target called makes .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 4
STAMP  := $(VENV)/.installed
SPARK_42 := build/spark-4.2
# the tests start some hundred processes, and each would compile all of logdrive anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test test-pravega test-delta test-cluster test-spark-42 test-container test-thorough peers filebeat check bench simulate mutants proto clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv with all of logdrive in it, as .venv/bin/logdrive

demo: $(STAMP) ## watch real log lines travel from rotating files to an audited table, with kills on the way
	@$(BIN)/logdrive demo $(ARGS)

test: $(STAMP) check ## run every test, JOBS=4 at a time, after ruff, mypy --strict and import-linter
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(STAMP) ## run ruff, mypy --strict and import-linter
	@$(BIN)/ruff format --check . && $(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

test-pravega: $(STAMP) ## run the tests that need a real Pravega (JOBS of them), which Maven fetches (Java 11 or later, 75 MB once)
	@$(BIN)/python -m pytest tests/pravega -m pravega_server -n $(JOBS) --maxschedchunk 1 $(ARGS)

test-delta: $(STAMP) ## run the tests that need delta-spark and DuckDB's reader of Delta, fetched once (Maven, Java 17; 600 MB in ~/.cache)
	@$(BIN)/python -m pytest tests/interop/delta -m delta_spark $(ARGS)

test-cluster: $(STAMP) ## run the tests that start several JVMs: a Spark cluster, and 30 kills of Spark's processes and the store
	@$(BIN)/python -m pytest tests/logdrive/pipeline/spark tests/faults -m cluster $(ARGS)

test-spark-42: $(SPARK_42)/.installed ## run the tests that need Spark with the oldest one that is allowed, PySpark 4.2.0 (500 MB, once)
	@$(SPARK_42)/bin/python -m pytest tests/logdrive/pipeline/spark tests/logdrive/pipeline/audit/engines tests/logdrive/pipeline/silver/test_spark.py tests/logdrive/pipeline/silver/test_variant_rest.py tests/logdrive/pipeline/tables/parquet -n $(JOBS) --dist loadfile $(ARGS)
	@$(SPARK_42)/bin/python -m pytest tests/logdrive/pipeline/spark -m cluster $(ARGS)

test-container: $(STAMP) ## build the agent's image and run it beside an application (root; buildah, podman, runc, debootstrap)
	@$(BIN)/python -m pytest tests/deploy -m container $(ARGS)

test-thorough: $(STAMP) ## run what maintainers need besides: sanitizers, deliberate bugs, more histories and kills, names of tests
	@$(BIN)/python -m pytest -m thorough -n $(JOBS) $(ARGS)

peers: $(STAMP) ## build s2-cli, and a real s2-lite with it, for tests and benchmarks: once, in ~/.cache (needs cargo)
	@$(BIN)/python -m tests.support.s2.cli_build

filebeat: $(STAMP) ## build Filebeat, a peer in benchmarks: once, in ~/.cache (needs Go; about ten minutes)
	@$(BIN)/python -m bench.peers.filebeat_build

bench: $(STAMP) ## run every benchmark and write build/bench.json
	@$(BIN)/python -m bench $(ARGS)

simulate: $(STAMP) ## play histories of agents, receivers and stores in virtual time; SEEDS=1000 how many, ARGS="--fresh"
	@$(BIN)/python -m tests.simulation run --seeds $(or $(SEEDS),300) $(ARGS)

mutants: $(STAMP) ## patch in one deliberate bug at a time: does the simulator find it, and how soon?
	@$(BIN)/python -m tests.simulation mutate $(ARGS)

proto: ## write anew what is generated from the .proto files
	@$(PYTHON) -m venv build/proto && build/proto/bin/python -m pip install --quiet --disable-pip-version-check grpcio-tools==1.71.0
	@build/proto/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. \
		logdrive/wire/pravega/controller/controller.proto logdrive/wire/s2/messages.proto

clean: ## remove what the other targets made
	rm -rf $(VENV) build

$(STAMP): pyproject.toml $(wildcard logdrive/kernel/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "logdrive needs Python 3.11 or later: make PYTHON=python3.11"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { echo "no venv module: install it (Debian: apt-get install python3-venv)"; exit 2; }
	@echo "installing logdrive and what it needs into $(VENV) (about 1.7 GB, four minutes the first time)"
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -e '.[spark,pravega,s2,iggy,iceberg,dev]'
	@touch $@

# what else is needed comes from the other environment, behind this one's own PySpark
$(SPARK_42)/.installed: $(STAMP)
	@$(BIN)/python -m venv --clear $(SPARK_42)
	@echo "installing PySpark 4.2.0 into $(SPARK_42)"
	@$(SPARK_42)/bin/python -m pip install --quiet --disable-pip-version-check pyspark==4.2.0
	@$(SPARK_42)/bin/python -c 'import site, sys; print(f"import site; site.addsitedir({sys.argv[1]!r})", file=open(site.getsitepackages()[0] + "/others.pth", "w"))' \
		"$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')"
	@touch $@
