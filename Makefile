# Two commands: `make demo` and `make test`. Both create .venv and install into it by themselves.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# uv takes less than half of pip's time. It gets pip's settings, and where it fails all the same, pip installs everything.
SETTING = "$$($(BIN)/python -m pip config list | sed -n "s/.*\.$(1)='\(.*\)'$$/\1/p" | sort -u | paste -sd '$(2)')"
UV = UV_DEFAULT_INDEX=$(call SETTING,index-url, ) UV_INDEX=$(call SETTING,extra-index-url, ) UV_FIND_LINKS=$(call SETTING,find-links,$(COMMA)) \
  UV_INDEX_STRATEGY=unsafe-best-match $(BIN)/uv pip install --quiet --python $(BIN)/python
COMMA := ,
# Python keeps what it has compiled: the tests start hundreds of processes, and each would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install demo examples test lint types unit bench package-check image docs screenshots chaos crashes fuzz bounds audit lock clean

help:  ## what there is to run
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

install: $(STAMP)  ## create .venv and install the locked dependencies

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ray-pubsub needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing the locked dependencies into .venv (a minute or two the first time)"
	@$(PIP) --constraint requirements.lock uv && $(UV) --requirement requirements.lock || $(PIP) --no-compile --requirement requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@echo "kernels are compiled in the background when they are first needed; $(BIN)/ray-pubsub warm-up compiles all of them now"
	@touch $(STAMP)

demo: $(STAMP)  ## a server with 100,000 wish lists; a process of it is killed, and nothing is lost
	@$(BIN)/ray-pubsub demo

examples: $(STAMP)  ## every example, one after the other
	@for name in wish_lists air_quality ad_segments log_detection adding_an_engine quickstart_server async_listener mine_monitoring webhook_routing two_nodes \
	  spark_batch spark_stream; do echo "== $$name"; $(BIN)/python -m examples.$$name || exit 1; done

test: lint  ## everything: lint, types, house rules, tests
	@$(MAKE) --no-print-directory --jobs 2 types unit  # types beside the tests, which often wait

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/mypy

unit: $(STAMP)
	@$(BIN)/python -m ray_pubsub.warming  # once, by both cores: tests that wait for servers would wait for every server to compile
	@# More processes than cores: two with Ray and Spark, which often wait, and one that computes (tests/conftest.py). What fails is tried once more,
	@# alone: kills and deadlines on a machine that is short of CPU. What is broken fails twice.
	@$(BIN)/pytest -n 3 --durations 25 || { echo "== what failed, once more and alone"; $(BIN)/pytest -n 0 --last-failed --last-failed-no-failures none; }

bench: $(STAMP)  ## benchmarks: every figure next to a correctness check in the same run
	@$(BIN)/python -m benchmarks

package-check: $(STAMP)  ## build wheel and sdist, install them into fresh environments, run the documents' samples there
	@$(BIN)/python -m tests.package

image:  ## build the container image
	docker build --tag ray-pubsub .

docs: $(STAMP)  ## build the documentation into site/, without the network
	@$(BIN)/python -m docs.draw_pictures
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "open site/index.html"

screenshots: $(STAMP)  ## pictures of the web console for the documentation, by its test
	@SCREENSHOTS=docs/images $(BIN)/pytest -n 0 tests/http/test_console.py

SECONDS ?= 60
SEED ?= 1
RUNS ?= 1
SEEDS ?= 200
N ?= 100000
CHECKED ?= $(addprefix tests/unit/,columns engines index language model priority shard sharding workloads) tests/contract

chaos: $(STAMP)  ## a server under load, its processes killed and stopped, its disk failing: SECONDS=60 SEED=1 RUNS=1
	@$(BIN)/python -m benchmarks chaos --seconds $(SECONDS) --seed $(SEED) --seeds $(RUNS)

crashes: $(STAMP)  ## stores crashed at every place where they write: SEEDS=200
	@$(BIN)/python -m tests.crashes --seeds $(SEEDS)

fuzz: $(STAMP)  ## random input for everything that reads what others wrote: N=100000 SEED=1
	@$(BIN)/python -m tests.fuzz --inputs $(N) --seed $(SEED)

bounds: $(STAMP)  ## tests of kernels with every index checked, which compiled code does not do by itself; compiles for minutes
	@XDG_CACHE_HOME=$(CURDIR)/.bounds NUMBA_BOUNDSCHECK=1 $(BIN)/pytest -n 2 -p no:cacheprovider $(CHECKED)
	@XDG_CACHE_HOME=$(CURDIR)/.bounds NUMBA_BOUNDSCHECK=1 $(BIN)/python -m tests.fuzz --inputs $(N) --seed $(SEED)

audit: $(STAMP)  ## known vulnerabilities of the pinned dependencies, by pip-audit, in an environment of its own
	@test -x .audit/bin/pip-audit || { $(PYTHON) -m venv .audit && .audit/bin/python -m pip install --quiet --quiet --disable-pip-version-check pip-audit; } || \
	  { rm -rf .audit; echo "audit: pip-audit could not be installed; is there a package index?" >&2; exit 1; }
	@.audit/bin/pip-audit --requirement requirements.lock --strict --no-deps --disable-pip --progress-spinner off || \
	  { echo "audit: vulnerabilities were found, or the database does not answer for a dependency (see above): not known to be safe" >&2; exit 1; }

lock: $(STAMP)  ## resolve pyproject.toml into requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	  --all-extras pyproject.toml --output-file requirements.lock --upgrade
	@echo "setuptools>=84.2" | $(BIN)/uv pip compile --quiet --no-header --no-annotate --no-emit-index-url --no-emit-find-links - >> requirements.lock

clean:  ## remove what the commands made
	rm -rf .venv .audit .bounds site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
