# Every target makes .venv and installs on first use. Needs python3.11 or newer, and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-compile -c constraints.txt
# The CPU build of PyTorch is 0.2 GB to download; the one in the registry brings 3 GB of CUDA on Linux.
TORCH_CPU := https://download.pytorch.org/whl/cpu
TORCH := .venv/.torch
RUNTIME := .venv/.runtime
DEV := .venv/.dev
SLIM := .venv/.slim
PLAY := .venv/.play

.PHONY: demo play test test-all bench report fuzz lint docs clean

define get_torch
	@$(PIP) -q --no-deps --force-reinstall --retries 0 --timeout 15 --index-url $(TORCH_CPU) torch 2>/dev/null \
	  || { echo "PyTorch's CPU builds are out of reach; taking the registry's build (3 GB with CUDA on Linux)."; \
	       $(PIP) -q --no-deps --force-reinstall torch; }
endef

$(TORCH): constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "First use: about 0.4 GB are downloaded (half of it PyTorch, CPU build) into .venv, less than 1 GB on disk."
	$(get_torch)
	@touch $@

# A first look does without its packages' own tests and headers; whoever works on autocl gets them back.
$(RUNTIME): $(TORCH) pyproject.toml
	$(PIP) -q -e '.[tour]'
	@test -e $(DEV) || { $(BIN)/python tools/slim.py && touch $(SLIM); }
	@touch $@

$(PLAY): $(TORCH) pyproject.toml
	$(PIP) -q -e '.[play]'
	@touch $@ $(RUNTIME)

$(DEV): $(TORCH) pyproject.toml
	@test ! -e $(SLIM) || rm $(TORCH) $(SLIM)
	@test -e $(TORCH) || $(MAKE) -s $(TORCH)
	$(PIP) -q -e '.[dev]'
	@touch $@ $(RUNTIME)

demo: $(RUNTIME)
	$(BIN)/autocl tour

play: $(PLAY)
	$(BIN)/autocl play

test: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m "not slow"

test-all: $(DEV) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

bench: $(DEV)
	$(BIN)/python -m benchmarks.ops --compiled

report: $(RUNTIME)
	$(BIN)/autocl bench weights
	$(BIN)/autocl bench report

# Damaged files of every kind against every reader, four minutes; another SEED tries other files.
SEED ?= 0
fuzz: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.fuzz --seconds 240 --seed $(SEED) --keep build/fuzz

docs: $(DEV)
	$(PIP) -q -e '.[docs]'
	$(BIN)/mkdocs build --strict

lint: $(DEV)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
