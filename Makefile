# make book   from a fresh clone to _build/site/index.html
# make check  lint, unit and structure tests; measures nothing
# make test   everything: measures, compares with reference/, tests the site in a browser
# make reference  write reference/ anew, after a change of a notebook that is meant
# make lock   the pins anew, from pyproject.toml and requirements.in (UPGRADE=1: the newest versions)
# make audit  licences and known vulnerabilities of the pins
# make translations  bring the catalogues in line with the English text, then list what is to do in them
#
# PYTHON          Python 3.11.5 or later, for creating .venv (default: python3)
# TORCH_INDEX_URL an index with another build of torch. On Linux the default registry's build carries
#                 several GB of CUDA; https://download.pytorch.org/whl/cpu has one for the CPU alone.

PYTHON ?= python3
TORCH_INDEX_URL ?=
BIN := .venv/bin
# The build that reference/ is compared with, on any machine.
REFERENCE := --model smollm2-135m --device cpu
READY := .venv/ready
# Tools for the pins, in an environment that the book knows nothing of.
TOOLS := _build/tools
# Waiting threads that spin make torch many times slower beside a busy neighbour.
export OMP_WAIT_POLICY := passive

.PHONY: book check test browser setup clean reference translations lock audit

book: setup
	$(BIN)/python scripts/build.py

setup: $(READY)

# pip runs only when the pins or the package's metadata have changed.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' || \
	  { echo "Python 3.11.5 or later is needed, and $(PYTHON) is not: try make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(if $(TORCH_INDEX_URL),$(BIN)/pip install --quiet --index-url $(TORCH_INDEX_URL) $$(grep '^torch==' requirements.txt))
	$(BIN)/pip install --quiet --requirement requirements.txt
	$(BIN)/pip install --quiet --no-deps --editable .
	touch $@

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python scripts/translations.py check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 tests/unit tests/book -m "not model and not site"

# Asked first: without a browser the last of the tests would fail, half an hour later.
browser: setup
	@command -v chromium >/dev/null || $(BIN)/python -c 'import os, sys; \
	  from playwright.sync_api import sync_playwright; driver = sync_playwright().start(); \
	  there = os.path.exists(driver.chromium.executable_path); driver.stop(); sys.exit(not there)' || \
	  { echo "make test opens the site in Chromium, and there is none: install it, or run" \
	    "$(BIN)/playwright install chromium" >&2; exit 1; }

# One measurement for all languages; nbval and the site tests use its records. Tests of the site compute nothing
# with torch, so two can run at a time; OMP_NUM_THREADS would make the records those of another machine.
test: browser check
	$(BIN)/python scripts/build.py $(REFERENCE)
	$(BIN)/python scripts/compare_reference.py
	$(BIN)/pytest tests/parity
	$(BIN)/pytest tests/unit tests/book -m model
	$(BIN)/pytest -n 2 --dist worksteal tests/unit tests/book -m site

reference: setup
	$(BIN)/python scripts/build.py $(REFERENCE) --locale en
	$(BIN)/python scripts/reference.py

translations: setup
	$(BIN)/python scripts/translations.py update
	$(BIN)/python scripts/translations.py check

$(TOOLS)/ready: requirements-audit.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --requirement requirements-audit.txt
	touch $@

lock: $(TOOLS)/ready
	$(PYTHON) scripts/lock.py --uv $(TOOLS)/bin/uv $(if $(UPGRADE),--upgrade)

# Strict: without its database the audit fails and says so.
audit: setup $(TOOLS)/ready
	$(BIN)/python scripts/licences.py
	$(TOOLS)/bin/pip-audit --requirement requirements.txt --no-deps --disable-pip --strict --progress-spinner off

clean:
	rm -rf _build
