# Every target first creates .venv if it is missing or outdated. PYTHON chooses its interpreter (3.11 or newer).

PYTHON ?= python3
# without bytecode files, every process that the tests start would compile everything again
unexport PYTHONDONTWRITEBYTECODE
ARGS ?=
PYTEST = $(BIN)/python -m pytest -q
PARALLEL := -n logical --dist worksteal
# slow tests mostly wait for processes
PARALLEL_SLOW = -n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal
OURS := not engines and not browser
BIN := .venv/bin
STAMP := .venv/.made-from-lock

say = printf '== %s\n' $(1)

.DEFAULT_GOAL := help
.PHONY: help setup test processes medium long properties night drift chaos fleet check probe server schemas browser acceptance engines bench speed soak history compatibility orchestrators record pin serve docs readme lock lowest newest clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create .venv from the locked requirements

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'turngate needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11' >&2; exit 2; }
	@$(call say,'setup: .venv with the locked requirements (a minute or two)')
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

test: setup ## Run the quick tests (no engine and no network needed)
	@$(PYTEST) $(PARALLEL) --maxprocesses 4 --durations 5 --durations-min 10 -m '$(OURS) and not long and not processes' $(ARGS)

processes: setup ## Run the tests that look at processes, one at a time (no engine and no network needed)
	@$(PYTEST) -m '$(OURS) and not long and processes' $(or $(ARGS),$$(grep -rl --include='test_*.py' mark.processes tests))

medium: setup ## Run the slow tests that every change must pass (minutes; no engine and no network needed)
	@$(PYTEST) $(PARALLEL_SLOW) -m '$(OURS) and long and not nightly and not hypothesis' $(ARGS)

long: setup ## Run all slow tests (many minutes; no engine and no network needed)
	@$(PYTEST) $(PARALLEL_SLOW) -m '$(OURS) and long and not hypothesis' $(ARGS)

properties: setup ## Run the property tests with many random examples (minutes; no engine and no network needed)
	@$(PYTEST) -n logical --dist loadfile -m '$(OURS) and hypothesis' --hypothesis-profile long $(ARGS)

night: ## Run what a release must pass beside .ci/run; continues with the steps that this commit has not passed
	@.ci/night

drift: setup ## Count the drifts that the clauses detect
	@$(BIN)/python -m tests.drift

chaos: setup ## Interrupt real servers at every step, with faults; ARGS='--seed 7 --rounds 50', ARGS=--short
	@$(BIN)/python -m tests.tools.chaos $(ARGS)

fleet: ## Run the tests of reference/examples/fleet, which need PostgreSQL and install its packages
	@FLEET_HOME=$(CURDIR)/build/fleet PYTHON=$(PYTHON) reference/examples/fleet/fleet test $(ARGS)

check: setup ## Check style, formatting, types and import rules
	@$(call say,'check: ruff')
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check --diff .
	@$(call say,'check: mypy --strict')
	@$(BIN)/mypy --strict contracts probes reference tests .github/watch.py .github/release_notes.py
	@$(call say,'check: import rules')
	@said=$$($(BIN)/lint-imports --no-cache --no-logo 2>&1) || { printf '%s\n' "$$said"; exit 1; }

probe: setup ## Probe the engines on PATH, or the pinned releases if there are none; ARGS='codex@0.169.0 --json' and the like
	@pinned=--pinned; ! $(BIN)/turngate engines list | grep -qv 'not on PATH' || pinned=; $(BIN)/turngate probe $$pinned $(ARGS)

server: setup ## Probe engines through the reference server, such as ARGS='qwen --json'
	@$(BIN)/turngate probe --level server $(or $(ARGS),codex gemini opencode)

docs: setup ## Build the documentation into build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

readme: setup ## Renew the outputs and pictures that the README and docs show, from real engines
	@$(BIN)/python -m tests.tools.docs

schemas: setup ## Generate the JSON Schemas from structs
	@$(BIN)/python -m tests.tools.schemas

browser: setup ## Run the tests of the HTML report and the server's page, which need Chromium and npm
	@$(BIN)/python -m pytest -q -m browser tests/browser $(ARGS)

acceptance: setup ## Run the tests that need real engines; installs missing ones
	@$(BIN)/python -m pytest -v -n 2 --dist worksteal -m engines --timeout 1800 tests/acceptance $(ARGS)

engines: setup ## Install the pinned release of every engine into the cache
	@$(BIN)/turngate engines install $(ARGS)

bench: setup ## Run the benchmarks, such as ARGS='server'; ARGS=--short only checks that they run; COMPARE=old.json shows changes
	@$(BIN)/python -m tests.tools.bench $(if $(COMPARE),--compare '$(COMPARE)') $(ARGS)

speed: setup ## Run all benchmarks on a quiet machine, and write docs/speed.md and docs/speed.json (half an hour)
	@$(BIN)/python -m tests.tools.bench --publish $(ARGS)

soak: setup ## Load the reference server for 30 minutes; ARGS='--minutes 1 --clients 10' and the like
	@$(BIN)/python -m tests.tools.soak $(ARGS)

history: setup ## Test the releases that an engine's history lacks, such as ENGINE=codex; ARGS='--clause ID' adds a clause (hours)
	@$(BIN)/python -m tests.tools.history $(ENGINE) $(ARGS)

compatibility: setup ## Render the compatibility tables from the histories
	@$(BIN)/python -m tests.tools.compatibility

orchestrators: setup ## Measure released orchestrators and render their page (minutes; ARGS='codex_sdk': only one)
	@$(BIN)/python -m tests.conform $(ARGS)

record: setup ## Record real releases into fixtures, such as ARGS='codex@0.169.0'
	@$(BIN)/turngate contracts record $(ARGS)

pin: setup ## Pin a release of an engine, such as ARGS='codex@0.169.0'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check uv
	@$(BIN)/python -m tests.tools.pin $(ARGS)

serve: setup ## Run the reference server, such as ARGS='--port 0 --slots 2'
	@$(BIN)/turngate serve $(ARGS)

lock: setup ## Update the locked requirements
	@$(BIN)/python -m pip install -qq --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-strip-extras \
		--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' \
		--group dev pyproject.toml -o requirements/dev.txt

lowest: setup ## Install the lowest dependencies that pyproject.toml allows; `make clean` undoes it
	@$(BIN)/python -m pip install -qq --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --resolution lowest-direct --upgrade -r pyproject.toml

newest: setup ## Install the newest dependencies; `make clean` undoes it
	@$(BIN)/python -m pip install -qq --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --upgrade -r pyproject.toml

clean: ## Remove everything that make created
	@rm -rf .venv build dist .coverage* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
