# Every target that a person or CI calls. `make` alone prints them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install lock

help: ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(STAMP) ## create .venv with everything, from the hashed lock files

$(STAMP): requirements/bootstrap.txt requirements/dev.txt pyproject.toml packages/gristmill/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Gristmill needs Python 3.11 or newer; %s is %s: set PYTHON=/path/to/python3.11" % (sys.executable, sys.version.split()[0]) if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements/bootstrap.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e packages/gristmill -e .
	touch $@

lock: ## renew the lock files (hashes, no download hosts)
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --extra server --extra worker --extra dev --no-emit-package gristmill -o requirements/dev.txt pyproject.toml
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -o requirements/environment.txt requirements/environment.in
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -o requirements/bootstrap.txt requirements/bootstrap.in
