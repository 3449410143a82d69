# Set-up is part of every target: a fresh machine needs Python 3.11+, make and the package registries, nothing else.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

# Federated learning frameworks whose runs Fedleak records. Their requirements exclude each other's: one environment each.
FRAMEWORKS := flower nvflare pfl

.PHONY: demo test test-slow test-integration $(FRAMEWORKS:%=test-%) reference browser clean

demo: $(STAMP)
	$(BIN)/fedleak demo

test: $(STAMP)
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m "not slow and not integration" -n auto --dist worksteal

# Longer checks: real data at full size, many seeds, every shipped plan.
test-slow: $(STAMP)
	$(BIN)/python -m pytest -m "slow and not integration"

# Recording and auditing real runs of the frameworks, with their own processes on this machine. Most of the time goes into
# waiting for these to start, so two frameworks are tested at a time.
test-integration:
	$(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) $(FRAMEWORKS:%=test-%)

# Flower must install. Where another framework cannot be installed, pip says why, and the rest is tested all the same.
$(FRAMEWORKS:%=test-%): test-%:
	@if $(MAKE) --no-print-directory .venv-$*/.installed; then \
	  .venv-$*/bin/python -m pytest -m integration tests/integration/$*; \
	elif [ $* = flower ]; then exit 1; \
	else echo "$*: NOT TESTED, because 'fedleak[$*]' cannot be installed here (see above)"; fi

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

# What the examples of a framework need besides it.
ALSO_flower = transformers psutil

.venv-%/.installed: pyproject.toml constraints-%.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --upgrade pip
	.venv-$*/bin/pip install --quiet torch -c constraints-$*.txt
	.venv-$*/bin/pip install --quiet -c constraints-$*.txt -e '.[$*]' pytest $(ALSO_$*)
	touch $@

clean:
	rm -rf .venv $(FRAMEWORKS:%=.venv-%)
