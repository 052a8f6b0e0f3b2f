# The first call of any target creates .venv and installs everything into it; later calls start at once.
# Another interpreter: make PYTHON=python3.12 demo     Without make: see "Install" in README.md.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
DEVELOPING := .venv/.developing

# One thread per test process: the processes share the cores already, and bit-exact tests need a fixed number.
# And bytecode is kept, whatever the shell says: rewriting the tests' assertions anew takes each process seconds.
TEST_ENVIRONMENT := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

# Each process takes a run of neighbouring tests, which share what they build, and helps another when it is done. One
# more than there are cores, because some tests wait for programs that they have started.
TEST_PROCESSES = -n $(shell $(BIN)/python -c 'import os; print(min(8, (os.cpu_count() or 1) + 1))') --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow search check format clean

help:
	@echo "make demo     train baseline and Attention Residuals on real text, and compare them (minutes)"
	@echo "make test     run the tests; make test-slow those that take long: every scheme deep, and through the real"
	@echo "              compiler"
	@echo "make search   run the property tests on examples that nobody has tried yet"
	@echo "make check    lint, formatting and types"
	@echo "make format   put the formatting right"
	@echo "make install  only create .venv; the program is then .venv/bin/attnres"

install: $(INSTALLED)

# The program alone; tests and checks install what they need beside it.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "attnres needs Python 3.11 or newer, and this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...")'
	@echo "Creating .venv and installing into it (once; a minute or more)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(DEVELOPING): $(INSTALLED)
	@echo "Installing what tests and checks need (once; a minute or more)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(INSTALLED)
	@$(BIN)/attnres demo

test: $(DEVELOPING)
	@$(TEST_ENVIRONMENT) $(BIN)/python -m pytest -q $(TEST_PROCESSES)

# Every scheme 48 transformer blocks deep, and through the real compiler.
test-slow: $(DEVELOPING)
	@$(TEST_ENVIRONMENT) $(BIN)/python -m pytest -q $(TEST_PROCESSES) -m slow

# What `make test` tries is the same every time; a failure found here wants an @example of its own.
search: $(DEVELOPING)
	@$(TEST_ENVIRONMENT) ATTNRES_TESTS_SEARCH=1 $(BIN)/python -m pytest -q $(TEST_PROCESSES) -m hypothesis

check: $(DEVELOPING)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(DEVELOPING)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache dist
