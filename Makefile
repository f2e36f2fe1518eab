# Two commands do everything on a fresh machine with Python 3.11 or newer:
#   make demo    the main job on simulated data
#   make test    every check
#   make docs    the documentation, as pages in build/docs
PYTHON ?= python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMP := .venv/.installed
STREAM_BIN := .venv-stream/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STREAM_STAMP := .venv-stream/.installed
DOCS_STAMP := .venv/.installed-docs

.PHONY: demo test test-fast test-stream docs coverage package lint hooks bench browser broker clean
.DELETE_ON_ERROR:

demo: $(STAMP)
	$(BIN)/coad demo

test: lint browser broker
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The inner loop: without the slow tests, to which those in a browser belong.
test-fast: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# Workers of coad stream: Quix Streams holds back packages that the rest wants newer, so it has an environment of its own.
test-stream: $(STAMP) $(STREAM_STAMP)
	$(BIN)/python -m pytest tests/test_streams.py tests/test_stream_worker.py

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

# A warning is an error, and so is a link that leads nowhere. A tutorial runs again if it changed since its last build.
docs: $(DOCS_STAMP)
	rm -rf build/docs docs/reference/api
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html -d build/doctrees docs build/docs
	$(BIN)/python docs/check_links.py build/docs

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# Torch comes first and pinned, so that no other package pulls in another build.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[all,dev]'
	touch $@

$(STREAM_STAMP): pyproject.toml
	test -x $(STREAM_BIN)/python || $(PYTHON) -m venv .venv-stream
	$(STREAM_BIN)/python -m pip install --quiet -e '.[stream]'
	touch $@

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

clean:
	rm -rf docs/auto_examples docs/reference/api docs/reference/commands
	rm -rf .venv .venv-stream build .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov
