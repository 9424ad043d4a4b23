# Two commands: `make rank` publishes a first private ranking, `make test` runs every check.
PYTHON ?= python3
BIN := .venv/bin
SAMPLE := out/sample

.PHONY: rank test check bench clean

rank: .venv/installed
	$(BIN)/private-topk sample --folder $(SAMPLE)
	$(BIN)/private-topk run --input $(SAMPLE)/plays.avro --domain $(SAMPLE)/catalogue.txt \
	    --mechanism joint --k 10 --epsilon 1 --window 7d --from 2026-01-05 --to 2026-02-02 \
	    --output out/ranking.avro --overwrite

test: .venv/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q

bench: .venv/tested
	$(BIN)/python -m benchmarks.pipeline
	$(BIN)/python -m benchmarks.mechanisms
	$(BIN)/python -m benchmarks.errors

# The version check and the venv come first, so that what is missing is named by what it is.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))' \
	    || { echo "private-topk needs Python 3.10 to 3.13: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "apt-get install python3-venv, then make again"; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/installed: .venv/bin/python setup.py pyproject.toml
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/tested: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

clean:
	rm -rf .venv out build *.egg-info

include flink.mk
