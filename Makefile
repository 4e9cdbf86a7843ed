# Every target makes .venv and installs on first use. Needs python3.11 or newer, and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test test-all bench lint docs clean

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/autocl demo

test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m "not slow"

test-all: $(STAMP) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

bench: $(STAMP)
	$(BIN)/python -m benchmarks.ops --compiled

docs: $(STAMP)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build --strict

lint: $(STAMP)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
