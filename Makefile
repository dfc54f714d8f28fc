# `make report` measures both backends on this machine and renders the report.
# `make test` runs the tests. Both set up what they need in .venv.

PYTHON ?= python3.11
# Used for torch alone: PyPI's build is for CUDA. Without the index, a CPU wheel that pip finds
# elsewhere (PIP_FIND_LINKS) does as well.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check
PYTEST_ARGS ?=

.PHONY: report test lab lint setup setup-dev lock

report: setup
	@$(BIN)/reproduce run --profile cpu

test: setup-dev
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

lab: setup
	@$(BIN)/jupyter lab --notebook-dir=notebooks

lint: setup-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

setup:
	@$(call install,cpu)

setup-dev:
	@$(call install,dev)

# Nothing happens while the lock and the package's own metadata are what was installed last.
# The lock is complete, so no resolver may add what it leaves out (see requirements/overrides.txt).
define install
	want=$$(cat requirements/$(1).txt pyproject.toml | sha256sum); \
	if [ "$$want" != "$$(cat .venv/.installed-$(1) 2>/dev/null)" ]; then \
	  set -e; \
	  echo "setting up .venv from requirements/$(1).txt"; \
	  [ -x $(BIN)/python ] || $(PYTHON) -m venv .venv; \
	  $(PIP) install -q --no-deps --retries 0 --extra-index-url $(TORCH_INDEX) \
	    $$(grep '^torch==' requirements/$(1).txt); \
	  $(PIP) install -q --no-deps -r requirements/$(1).txt; \
	  $(PIP) install -q --no-deps --no-build-isolation -e .; \
	  echo "$$want" > .venv/.installed-$(1); \
	fi
endef

UV := uv pip compile pyproject.toml -q --python-version 3.11 \
  --python-platform x86_64-manylinux_2_28 --no-annotate --no-header
UV_CPU := $(UV) --overrides requirements/overrides.txt --index-strategy unsafe-best-match \
  --extra-index-url $(TORCH_INDEX)

# Needs uv. The pins of environment.yml are the CPU lock's, without the engine's own.
lock:
	$(UV_CPU) --extra cpu -o requirements/cpu.txt
	$(UV_CPU) --extra cpu --extra dev -c requirements/cpu.txt -o requirements/dev.txt
	$(UV) --extra gpu -o requirements/gpu.txt
	$(UV) -c requirements/cpu.txt | $(PYTHON) requirements/environment.py > environment.yml
