# make demo and make test set up whatever they need; see scripts/setup.sh.
.PHONY: help setup browser demo test all_tests unit lint type check bench soak fuzz docs format lock clean
.SILENT:

VENV_PYTHON := .venv/bin/python
SETUP := scripts/setup.sh
# Tests start many programs of Python. Each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

help:
	echo "make demo    the main job, end to end, on throwaway local clusters"
	echo "make test    lint, types and all tests"
	echo "make lint | type | unit    one of them alone (unit: tests that need no server)"
	echo "make bench   speed, side by side with a peer; writes docs/benchmarks.md"
	echo "make soak    long fault runs"
	echo "make fuzz    feed broken input to what reads it; SECONDS=60 for each target"
	echo "make docs    write docs/commands.md from the commands"
	echo "make format  let ruff lay out the code"
	echo "make lock    pin the newest versions in requirements/dev.txt"

setup:
	$(SETUP)

demo: setup
	.venv/bin/pgrepl demo

# Lint and types run beside the tests; what they find is printed at once.
test: browser
	$(MAKE) --no-print-directory -j 3 SETUP=: lint type all_tests

# Three processes on two cores, for tests wait too, each with servers of its own; a file's tests stay together.
all_tests: setup
	$(VENV_PYTHON) -m pytest -n 3 --dist loadfile --no-loadscope-reorder

browser:
	scripts/setup.sh browser

check: test

unit: setup
	$(VENV_PYTHON) -m pytest tests/unit

lint: setup
	$(VENV_PYTHON) -m ruff check --quiet .
	$(VENV_PYTHON) -m ruff format --quiet --check .

type: setup
	$(VENV_PYTHON) -m mypy --no-error-summary
	$(VENV_PYTHON) -m mypy --no-error-summary --check-untyped-defs tests bench

bench: setup
	PYTHONPATH=. $(VENV_PYTHON) bench/run.py
	for file in bench/bench_*.py; do PYTHONPATH=. $(VENV_PYTHON) "$$file" || exit 1; done

MINUTES ?= 5
soak: setup
	PGREPL_SOAK_MINUTES=$(MINUTES) $(VENV_PYTHON) -m pytest tests/soak
	$(VENV_PYTHON) -m pytest -m soak
	PGREPL_EXAMPLES=40 $(VENV_PYTHON) -m pytest tests/unit/decoding tests/unit/receiver tests/unit/replayer tests/unit/resync \
		tests/unit/core tests/unit/ddl_capture

# atheris is not among the pins: it lags the versions of Python that we test with.
SECONDS ?= 60
FUZZED := $(notdir $(wildcard tests/fuzz/corpus/*))
fuzz: setup
	$(VENV_PYTHON) -m pip install -q --disable-pip-version-check --upgrade --target .fuzz/packages atheris
	for target in $(FUZZED); do \
		echo "fuzz: $$target, $(SECONDS) s"; \
		PYTHONPATH=.:.fuzz/packages $(VENV_PYTHON) tests/fuzz/run.py "$$target" $(SECONDS) || exit 1; \
	done
	echo "fuzz: the compiled core, with sanitizers, $(SECONDS) s"
	PYTHONPATH=. $(VENV_PYTHON) tests/fuzz/sanitized.py $(SECONDS)

docs: setup
	$(VENV_PYTHON) scripts/document_commands.py
	$(VENV_PYTHON) scripts/document_settings.py

format: setup
	$(VENV_PYTHON) -m ruff check --fix --quiet .
	$(VENV_PYTHON) -m ruff format --quiet .

lock: setup
	scripts/lock.sh

clean:
	rm -rf .venv .fuzz build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
