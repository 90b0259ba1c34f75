# make demo | make check | make test: all that a fresh machine needs. Everything installs into .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
KERNELS := $(wildcard src/treelu/kernels/*.[ch])

.PHONY: help setup demo check test lint bench bench-quality bench-size paper docs package sbom clean
help:
	@echo "setup          install everything into .venv"
	@echo "demo           set up and run the main job on embedded data"
	@echo "check          lint, check types, run the quick tests: for daily work"
	@echo "test           lint, check types, run all tests"
	@echo "bench          speed, side by side with peers"
	@echo "bench-quality  accuracy on tables, side by side with peers"
	@echo "bench-size     accuracy at a number of leaves and terms, side by side with peers"
	@echo "paper          the paper's tables and figures"
	@echo "docs           build the documentation into site/"
	@echo "package        build the sdist and the wheel, and try each in an empty environment"
	@echo "sbom           the bill of materials of an installation, CycloneDX, into dist/sbom.json"

$(BIN)/python:
	$(PYTHON) -m venv .venv

$(READY): pyproject.toml setup.py constraints.txt $(KERNELS) | $(BIN)/python
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	touch $@

setup: $(READY)

demo: $(READY)
	$(BIN)/treelu demo --out demo-output

check: lint
	$(BIN)/python -m pytest -n 2 -m "not slow"

test: lint
	$(BIN)/python -m pytest -n 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks.speed

bench-quality: $(READY)
	$(BIN)/python -m benchmarks.quality

bench-size: $(READY)
	$(BIN)/python -m benchmarks.size

paper: $(READY)
	$(BIN)/python -m experiments

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

package: | $(BIN)/python
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt -e '.[release]'
	$(BIN)/python release/check.py

sbom: | $(BIN)/python
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt -e '.[release]'
	$(BIN)/python release/sbom.py

clean:
	rm -rf .venv site dist build demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
