# Each target does all of its own set-up: the virtual environment, the pinned dependencies, the package.
#
#   make demo        the main job: measure, predict, notebook, report
#   make test        the tests (what CI calls), in two processes; TESTS=tests/knobs runs some, PROCESSES=0 in one
#                    process; those in a browser need Chromium
#   make bench       the benchmarks; ONLY=loader runs one
#   make lab         JupyterLab at notebooks/00_start_here.ipynb; ARGS=--no-browser passes flags on
#
# PYTHON=python3.12 picks the interpreter; TORCH_INDEX=<index> installs torch from an index of your choice, such as
# the one with CPU builds that PyTorch's "Get started" page names.

PYTHON ?= python3
TESTS  ?= tests
PROCESSES ?= 2
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
SECOND := tests/browser/ipykernel6.txt
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test bench lab clean

demo: $(READY)
	$(BIN)/labkit demo --out demo

test: $(READY)
	$(BIN)/ruff check labkit tests
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q -n $(PROCESSES) --dist loadfile $(TESTS)

bench: $(READY)
	$(BIN)/python -m tests.bench $(ONLY)

lab: $(READY)
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/00_start_here.ipynb $(ARGS)

$(READY): pyproject.toml constraints.txt $(SECOND)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "labkit needs Python 3.11 or later; '$(PYTHON)' is older: make PYTHON=python3.12 …"; exit 1; }
	@echo "installing into $(VENV) (once; some minutes) …"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --constraint constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX) --no-deps) torch
	$(PIP) --constraint constraints.txt --config-settings editable_mode=compat --editable '.[test]'
	$(PIP) --upgrade --no-deps --target $(VENV)/ipykernel6 --requirement $(SECOND)
	@touch $(READY)

clean:
	rm -rf $(VENV) .venv-bench demo runs build *.egg-info
