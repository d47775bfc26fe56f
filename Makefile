# The commands of this project. `make help` lists them.

PY := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-integration test-rabbitmq4 test-faults lint format venv lock clean

help: ## list the commands
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | while IFS='	' read -r name text; do printf '  make %-18s %s\n' "$$name" "$$text"; done

demo: venv ## a message starts a DAG: broker, Airflow, one order (ONCE=1 ends by itself)
	@exec $(PY) -m demo

test: venv ## everything: lint, types, contracts, tests/, integration/ on private services
	@exec $(PY) -m tools.run_tests

test-unit: venv ## tests/ only, no services (ARGS=... goes to pytest)
	@exec $(PY) -m pytest tests $(ARGS)

test-integration: venv ## integration/ only, on private services (ARGS=... goes to pytest)
	@exec $(PY) -m tools.run_tests --only integration -- $(ARGS)

test-rabbitmq4: venv ## all of integration/surface on RabbitMQ 4.0 (ARGS=... goes to pytest)
	@exec $(PY) -m tools.run_tests --only other-rabbitmq -- $(or $(ARGS),-q)

test-faults: venv ## every fault test, the slow ones too, with their figures (ARGS=... goes to pytest)
	@exec $(PY) -m tools.run_tests --only integration -- -m "fault or slow_fault" $(ARGS)

lint: venv ## ruff, mypy, import contracts, module sizes
	@exec $(PY) -m tools.run_tests --only lint

format: venv ## let ruff format and repair
	@$(PY) -m ruff check --fix . && $(PY) -m ruff format .

venv: ## .venv with pinned versions; only when something changed
	@tools/make-venv

lock: venv ## renew constraints/*.txt (UPGRADE=1: newest versions)
	@UPGRADE="$(UPGRADE)" tools/lock

clean: ## remove .venv, .test and .demo
	@rm -rf .venv .test .demo
