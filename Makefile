# `make` lists the targets. Everything is built into ${XDG_CACHE_HOME:-~/.cache}/paceline, nothing into the checkout.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

# The interpreter everything is made from; any CPython from 3.11 on.
PYTHON ?= python3
# Found, or built, once a command that needs it.
DEV = $$($(PYTHON) requirements/dev_env.py)/bin
# Arguments for pytest, such as `make unit ARGS='-k guard'`.
ARGS ?=
# Tests at one time: most of a cluster test is waiting. Each has a test bed of its own, so a cluster that is not ours takes
# them one by one.
WORKERS ?= $(if $(filter embedded,$(CLUSTER)),4,0)

-include tests/cluster/cluster.mk

.PHONY: help
help:  ## Show the targets.
	@sed -nE 's/^([a-z][a-z-]*):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: dev-env
dev-env:  ## Make the development environment and print its folder.
	@$(PYTHON) requirements/dev_env.py

.PHONY: demo
demo:  ## The whole job, for real, on this machine: a head that is promoted, and a revision that is rolled back.
	@dev=$(DEV); PYTHONPATH=operator:tests/cluster:. "$$dev/python" -m demo $(ARGS)

.PHONY: test
test: test-parts  ## Everything: unit, schema, real API server, real node, and the loop end to end.
ifdef ARGS
	@dev=$(DEV); "$$dev/python" -m pytest $(ARGS)
else
	@dev=$(DEV); failed=0; \
	"$$dev/python" -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder --durations 10 -m 'not e2e' || failed=$$?; \
	"$$dev/python" -m pytest -m e2e || failed=$$?; exit $$failed
endif

# The loop comes last and alone, since what it measures needs the machine. The parts are
# built before any test runs, since a test's own time limit is no place for half an hour of compiling.
.PHONY: test-parts
test-parts: $(if $(filter embedded,$(CLUSTER)),cluster-build)
	@$(PYTHON) requirements/cpu_env.py venv >/dev/null

.PHONY: unit
unit:  ## What needs neither a cluster nor the heavy environment: four minutes, half of them waiting.
	@dev=$(DEV); "$$dev/python" -m pytest -m 'not cluster and not ml and not e2e' $(ARGS)

.PHONY: chaos
chaos: test-parts  ## Every fault one by one on the test bed: kills, a failing API server, lost nodes; an hour.
ifdef ARGS
	@dev=$(DEV); "$$dev/python" -m pytest -m chaos $(ARGS)
else
	@dev=$(DEV); failed=0; \
	"$$dev/python" -m pytest -n $(WORKERS) --dist worksteal --durations 10 -m 'chaos and not e2e' \
	  || failed=$$?; \
	"$$dev/python" -m pytest -m 'chaos and e2e' || failed=$$?; exit $$failed
endif

.PHONY: lint
lint:  ## Style, types, the direction of imports, and stale generated files.
	@dev=$(DEV); export PYTHONPATH=operator; set -x; \
	"$$dev/ruff" check; "$$dev/ruff" format --check; "$$dev/mypy"; "$$dev/lint-imports" --no-logo; \
	"$$dev/python" -m paceline.api.crd --check; "$$dev/python" -m paceline.api.reference --check

.PHONY: format
format:  ## Apply what can be fixed by itself.
	@dev=$(DEV); "$$dev/ruff" check --fix; "$$dev/ruff" format

.PHONY: crds
crds:  ## Write crds/, the chart's copy and docs/api.md from the models.
	@dev=$(DEV); export PYTHONPATH=operator; \
	"$$dev/python" -m paceline.api.crd; "$$dev/python" -m paceline.api.reference

.PHONY: locks
locks:  ## Resolve the dependencies again, after a change of pyproject.toml.
	@$(PYTHON) requirements/dev_env.py --lock
