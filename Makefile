# Every target works in a fresh clone: `make test` first makes what it needs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
.PHONY: help venv demo test check lint format clean

# requirements.lock holds versions for Python 3.11.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
KEY = $(shell { cat requirements.lock; $(PYTHON) -VV; } | sha256sum | cut -c1-16)
BIN := .venv/bin

help: ## list the targets
	sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 16

# The packages (1.5 GB) go into a venv outside the checkout, which all checkouts with the same lock share. `.venv` is
# a thin venv on top of it with this checkout's rayrag, and its own copies of the console scripts: Ray starts its
# workers and jobs with the interpreter that started Ray, so `ray` must run on the interpreter that sees rayrag.
venv: ## create .venv from requirements.lock (minutes the first time, then instant)
	stamp="$(KEY) $(CURDIR)"
	fresh() { [[ "$$(cat .venv/.complete 2>/dev/null)" == "$$stamp" && ! pyproject.toml -nt .venv/.complete ]]; }
	if fresh; then exit; fi
	# -qq: pip warns of each local index and wheel folder that it passes over, pages of it.
	quiet=(-qq --no-deps --disable-pip-version-check)
	shared="$${XDG_CACHE_HOME:-$$HOME/.cache}/rayrag/venv-$(KEY)"
	mkdir -p "$${shared%/*}"
	# One maker at a time; `.complete` is written last, so what an interrupted run left is made anew.
	exec 9> "$$shared.lock"
	flock -n 9 || { echo "waiting for another make venv"; flock 9; }
	if fresh; then exit; fi
	if [[ ! -e "$$shared/.complete" ]]; then
	    echo "installing the packages of requirements.lock into $$shared"
	    rm -rf "$$shared"
	    "$(PYTHON)" -m venv "$$shared"
	    install=("$$shared/bin/python" -m pip install "$${quiet[@]}")
	    # The CPU build of torch, from a local wheel folder or mirror if pip is configured with one.
	    torch="$$(grep '^torch==' requirements.lock)+cpu"
	    "$${install[@]}" "$$torch" 2>/dev/null || "$${install[@]}" "$$torch" --index-url $(TORCH_CPU_INDEX)
	    "$${install[@]}" -r requirements.lock
	    touch "$$shared/.complete"
	fi
	# Once made it is kept, since something may run from it: a new pyproject.toml is only installed over the old one.
	if [[ "$$(cat .venv/.complete 2>/dev/null)" != "$$stamp" ]]; then
	    rm -rf .venv
	    "$$shared/bin/python" -m venv --without-pip .venv
	    purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
	    "$$shared/bin/python" -c "$$purelib" > "$$($(BIN)/python -c "$$purelib")/shared.pth"
	    for script in "$$shared"/bin/*; do
	        copy="$(BIN)/$${script##*/}"
	        if [[ ! -f "$$script" || -e "$$copy" ]]; then continue; fi
	        if [[ "$$(head -c 2 "$$script" | tr -d '\0')" != '#!' ]]; then ln -s "$$script" "$$copy"; continue; fi
	        # The shell line allows spaces and any length in the path, which `#!` does not.
	        printf "#!/bin/sh\n'''exec' '%s' \"\$$0\" \"\$$@\"\n' '''\n" "$(CURDIR)/$(BIN)/python" > "$$copy"
	        sed "1,3{/^#!/d;/^'''exec/d;/^' '''/d}" "$$script" >> "$$copy"
	        chmod +x "$$copy"
	    done
	fi
	$(BIN)/python -m pip install "$${quiet[@]}" --no-build-isolation -e .
	echo "$$stamp" > .venv/.complete

demo: venv ## build and query an index of Python's own help topics on a local Ray cluster
	bash cluster/demo.sh

test: venv ## run the tests: those without Ray in parallel, then those that start Ray
	failed=0
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m "not ray" || failed=1 # two processes share the cores
	$(BIN)/pytest -m ray || failed=1
	exit $$failed

lint: venv ## format check, lint, strict types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test ## everything that CI checks

format: venv ## format the code and apply safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove .venv and caches (not the store, not the shared venv)
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
