# Two commands: `make demo` and `make test`. Both create .venv and install into it by themselves.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: help install demo test lint types unit bench lock clean

help:  ## what there is to run
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

install: $(STAMP)  ## create .venv and install the locked dependencies

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ray-pubsub needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing the locked dependencies into .venv (a minute or two the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: $(STAMP)  ## a server with 100,000 wish lists; a process of it is killed, and nothing is lost
	@$(BIN)/python -m examples.demo

test: lint types unit  ## everything: lint, types, house rules, tests

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/mypy

unit: $(STAMP)
	@nice -n 19 $(BIN)/pytest -n 2 --dist loadgroup  # Ray's workers are as nice; else tests that only compute leave them nothing

bench: $(STAMP)  ## benchmarks: every figure next to a correctness check in the same run
	@$(BIN)/python -m benchmarks

lock: $(STAMP)  ## resolve pyproject.toml anew into requirements.lock (needs uv)
	@uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	  --all-extras pyproject.toml --output-file requirements.lock --upgrade
	@echo "setuptools>=84.2" | uv pip compile --quiet --no-header --no-annotate --no-emit-index-url --no-emit-find-links - >> requirements.lock

clean:  ## remove what the commands made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
