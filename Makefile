# Set-up is part of every target: a fresh machine needs Python 3.11+, make and the package registries, nothing else.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test test-slow reference browser clean

demo: $(STAMP)
	$(BIN)/fedleak demo

test: $(STAMP)
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m "not slow" -n auto --dist worksteal

# Longer checks: real data at full size, many seeds, every shipped plan.
test-slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

# What of the documentation follows from the code.
reference: $(STAMP)
	$(BIN)/python -m fedleak.reference docs

# Debian's Chromium, for the test that opens the report; without it that test skips and says so.
browser:
	apt-get update && apt-get install -y chromium

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet torch -c constraints.txt
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $(STAMP)

clean:
	rm -rf .venv
