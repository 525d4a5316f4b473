# Every target that a person or CI calls. `make` alone prints them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ENVIRONMENT := .gristmill/environments/python
PYTEST := $(BIN)/python -m pytest
# Daemons, browsers and workers share two cores with the tests: what failed is tried once more, alone.
AGAIN = $(PYTEST) $(1) || { echo "Once more, what failed:"; $(PYTEST) $(1) --last-failed -n 0; }
LOCK := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help up install node environment frontend check test test-quick test-core test-e2e test-rm openapi docs bench migrate lock clean

help: ## print this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

up: install environment frontend ## set up everything and run it: server, database, a worker, an example
	@$(PYTHON) scripts/system.py bubblewrap
	@$(BIN)/python scripts/up.py

install: $(STAMP) ## create .venv with everything, from the hashed lock files

$(STAMP): requirements/bootstrap.txt requirements/dev.txt pyproject.toml packages/gristmill/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Gristmill needs Python 3.11 or newer, and %s is %s: set PYTHON=/path/to/python3.11" % (sys.executable, sys.version.split()[0]) if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements/bootstrap.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e packages/gristmill -e .
	@touch $@

node: install
	@$(PYTHON) scripts/system.py node

environment: $(ENVIRONMENT)/.installed ## create the Python environment in which the local worker runs blocks

$(ENVIRONMENT)/.python: requirements/environment.txt | $(STAMP)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(ENVIRONMENT)
	$(BIN)/uv pip install --quiet --python $(ENVIRONMENT)/bin/python --compile-bytecode --require-hashes -r requirements/environment.txt
	@touch $@

$(ENVIRONMENT)/.installed: $(ENVIRONMENT)/.python $(shell find packages/gristmill/src -name '*.py') packages/gristmill/pyproject.toml
	@rm -rf .gristmill/wheels
	$(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir .gristmill/wheels packages/gristmill
	$(BIN)/uv pip install --quiet --python $(ENVIRONMENT)/bin/python --compile-bytecode --no-deps --reinstall .gristmill/wheels/gristmill-*.whl
	@touch $@

frontend: frontend/dist/index.html ## build the page

frontend/node_modules/.package-lock.json: frontend/package-lock.json frontend/package.json | node
	cd frontend && npm ci --no-audit --no-fund
	@touch $@

frontend/dist/index.html: frontend/node_modules/.package-lock.json $(shell find frontend/src frontend/public -type f 2>/dev/null) frontend/vite.config.ts frontend/index.html
	cd frontend && npm run build

check: install frontend/node_modules/.package-lock.json ## lint, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell backend packages docs scripts examples tests bench README.md CONTRIBUTING.md CHANGELOG.md
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd frontend && npm run lint && npm run typecheck

test: check test-quick test-e2e test-rm docs ## everything that CI runs

test-quick: install frontend/node_modules/.package-lock.json ## unit and integration tests
	@$(PYTHON) scripts/system.py bubblewrap sshd
	cd frontend && npm test
	$(call AGAIN,-n 2 -m "not e2e and not real_rm and not conformance")

test-core: install ## the scheduler's decisions alone; run on save
	$(PYTEST) -q tests/core

test-e2e: install environment frontend ## real server, worker and Chromium; crashes
	@$(PYTHON) scripts/system.py bubblewrap chromium
	$(call AGAIN,-m e2e tests/browser)
	$(call AGAIN,-m "e2e and not real_rm" --ignore=tests/browser)

test-rm: install ## the conformance suite on real Slurm, Grid Engine, OAR, and over SSH
	@$(PYTHON) scripts/system.py sshd
	$(call AGAIN,-m "real_rm or conformance")

openapi: install ## write openapi/openapi.json from the code
	$(BIN)/python -m backend.app openapi > openapi/openapi.json

docs: install ## build the documentation into site/
	$(BIN)/mkdocs build --strict --quiet

bench: install environment frontend ## run every benchmark; each prints ratios measured in one run
	@for b in bench/*.py; do echo "== $$b"; $(BIN)/python $$b || exit 1; done

lock: ## renew the lock files (hashes, no download hosts)
	$(LOCK) --extra server --extra worker --extra dev --no-emit-package gristmill -o requirements/dev.txt pyproject.toml
	$(LOCK) -o requirements/environment.txt requirements/environment.in
	$(LOCK) -o requirements/bootstrap.txt requirements/bootstrap.in
	$(LOCK) -o requirements/node.txt requirements/node.in

clean: ## remove what was built or installed here (not .gristmill/data)
	rm -rf $(VENV) $(ENVIRONMENT) frontend/node_modules frontend/dist site .mypy_cache .ruff_cache .pytest_cache
