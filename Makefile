# Two commands: `make rank` publishes a first private ranking, `make test` runs the checks. `make check` is the part of
# it that is quick and starts no server: what one runs while working. `make nightly` also runs the long matrices.
PYTHON ?= python3
BIN := .venv/bin
SAMPLE := out/sample

# Bytecode is kept, whatever is set: pytest takes half a minute to rewrite all assertions, and each process to compile.
# For tests pip makes none beforehand (`--no-compile`): that takes a minute, and nine modules of ten are never imported.
export PYTHONDONTWRITEBYTECODE =
# A `make` that a test calls is no part of this one.
unexport MAKEFLAGS

QUICK := not server and not long and not nightly
# Whoever is done takes over tests of the others.
SHARED := -n auto --dist worksteal
# Tests that share a server run one after the other, and mostly wait: so there are more workers than processors.
WITH_SERVERS := -n $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2))) --dist loadgroup
# What shows first that a release of somebody else's changes an answer, or a name that we use.
WITH_OTHER_RELEASES := tests/test_readme.py tests/transforms/mechanisms/test_pinned_answers.py tests/transforms/test_executions.py \
    tests/pipelines/test_pinned_answers.py tests/pipelines/test_batch.py

.PHONY: rank test day nightly check lint newest oldest metadata bench site flink-up flink-down kafka clean

rank: .venv/installed
	$(BIN)/private-topk sample --folder $(SAMPLE)
	$(BIN)/private-topk run --input $(SAMPLE)/plays.avro --domain $(SAMPLE)/catalogue.txt \
	    --k 10 --epsilon 1 --privacy-unit user --window 7d --from 2026-01-05 --to 2026-02-02 \
	    --output out/ranking.avro --overwrite

check: lint
	$(BIN)/python -m pytest -q $(SHARED) -m "$(QUICK)"

# Every kind of behaviour. With `make -j2 test` types are checked beside the tests.
test: lint day

day: .venv/compiled
	$(BIN)/python -m pytest -q $(WITH_SERVERS) -m "not nightly"

# Everything, with all rows of every matrix; then most of an hour of attacks on the whole path, and what is coming, which
# fails nothing.
nightly: lint
	$(BIN)/python -m pytest -q $(WITH_SERVERS)
	$(BIN)/python -m benchmarks.audit
	-make newest

lint: .venv/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# A few tests with the newest releases of everything, in a copy of the environment.
newest: .venv/tested
	rm -rf .venv-newest
	cp -a .venv .venv-newest
	PIP_CONSTRAINT= .venv-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager '.[test]'
	.venv-newest/bin/python -m pytest -q $(SHARED) -m "not nightly" $(WITH_OTHER_RELEASES)

# And the quick checks with the oldest that pyproject.toml lets in.
oldest:
	rm -rf .venv-oldest
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade pip
	PIP_CONSTRAINT= .venv-oldest/bin/python -m pip install --quiet '.[test]' \
	    $$(sed -n '/^dependencies/,/^]/s/^ *"\([a-z-]*\)>=\([0-9.]*\).*/\1==\2/p' pyproject.toml)
	.venv-oldest/bin/python -m pytest -q $(SHARED) -m "$(QUICK)"

# The parameters of the Dataflow template, from the arguments of `run`.
metadata: .venv/installed
	$(BIN)/python deploy/dataflow/metadata.py > deploy/dataflow/metadata.json

bench: .venv/tested
	$(BIN)/python -m benchmarks.pipeline
	$(BIN)/python -m benchmarks.mechanisms
	$(BIN)/python -m benchmarks.errors

# The pages as HTML, with a preview of every mechanism and the reference: a warning is an error.
site: .venv/documented
	$(BIN)/python docs/site/build.py out/site

# For trying, on loopback: a standalone Flink cluster of a job manager, two task managers and a pool of Python workers,
# and a Kafka broker with the topic `plays`, which ends with Ctrl-C.
flink-up: .venv/installed
	$(BIN)/python -m benchmarks.servers.flink up

flink-down:
	$(BIN)/python -m benchmarks.servers.flink down

kafka: .venv/installed
	@echo "installing the Kafka client: some seconds"
	@$(BIN)/python -m pip install --quiet --editable '.[kafka]'
	$(BIN)/python -m benchmarks.servers.kafka

# The version check and the venv come first, so that what is missing is named by what it is.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' \
	    || { echo "private-topk needs Python 3.11 to 3.14: make PYTHON=python3.11"; exit 1; }
	@echo "making a virtual environment in .venv: some seconds" >&2
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "apt-get install python3-venv, then make again"; exit 1; }
	@$(BIN)/python -m pip install --quiet --upgrade pip

.venv/installed: .venv/bin/python setup.py pyproject.toml
	@echo "installing private-topk with Beam, Arrow and polars into .venv, once: one to two minutes" >&2
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/tested: .venv/bin/python setup.py pyproject.toml
	@echo "installing private-topk with what its tests need into .venv, once: two to three minutes" >&2
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --no-compile --quiet --editable '.[test]'
	@touch .venv/installed $@

# By one process, or each of the workers would compile all that the tests import. What is wrong is told by them.
.venv/compiled: .venv/tested
	@$(BIN)/python -m pytest -q --collect-only > /dev/null 2>&1 || true
	@touch $@

.venv/documented: .venv/installed
	@echo "installing what makes the pages into .venv, once: some seconds" >&2
	@$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

clean:
	rm -rf .venv .venv-newest .venv-oldest out build src/*.egg-info
