# Two commands do everything on a fresh machine with Python 3.11 or newer:
#   make demo    the main job on simulated data
#   make test    every check
PYTHON ?= python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMP := .venv/.installed

.PHONY: demo test test-fast coverage package lint hooks bench browser broker clean
.DELETE_ON_ERROR:

demo: $(STAMP)
	$(BIN)/coad demo

test: lint browser broker
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The inner loop: without the slow tests, to which those in a browser belong.
test-fast: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# All tests, with the share of lines that they run; fails below the floor in pyproject.toml.
coverage: $(STAMP) browser broker
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term

# The built wheel in clean environments: every extra, none, and the lowest versions that pyproject.toml allows.
package: $(STAMP)
	$(BIN)/python tests/check_package.py

# Checks of style and types at each `git commit`.
hooks: $(STAMP)
	$(BIN)/pre-commit install

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Pages are tested in the system's Chromium, MQTT against Mosquitto: Debian's are installed where that is allowed.
browser broker:
	@PATH=$$PATH:/usr/sbin; for name in $(PROGRAM); do command -v $$name >/dev/null && exit 0; done; \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	    && apt-get update -qq && apt-get install -y -qq $(firstword $(PROGRAM)) >/dev/null; } \
	  || echo "Tests that need $(firstword $(PROGRAM)) are skipped. Install it (Debian: apt-get install $(firstword $(PROGRAM)))."
browser: PROGRAM = chromium chromium-browser
broker: PROGRAM = mosquitto

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# Torch comes first and pinned, so that no other package pulls in another build.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[all,dev]'
	touch $@

clean:
	rm -rf .venv build .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov
