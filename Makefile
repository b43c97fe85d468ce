# Everything that is built, run and tested here. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help book lab pdf test weekly remaining rounding versions mutants links dist run same sweep bench constraints clean

PYTHON ?= python3
PY := .venv/bin/python
# Exact versions of what is installed; CONSTRAINTS=/dev/null takes the newest that are allowed.
CONSTRAINTS ?= constraints.txt
PIP = $(PY) -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)
CHAPTERS := $(wildcard book/*.ipynb)
SOURCES := $(shell find book mfbook -mindepth 1 ! -path '*/__pycache__*' ! -path '*/.*')

# One thread per linear-algebra call and a fixed hash seed: a second run gives the same bytes.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export PYTHONHASHSEED := 0
# Whatever the shell says: kernels and workers keep their asserts, and do not compile everything again.
export PYTHONOPTIMIZE :=
export PYTHONDONTWRITEBYTECODE :=

LIST = sed -E 's/^([a-z]+):.*\#[\#:] */  make \1\t/' | expand -t 20

help:  ## Show this list
	@grep -E '^[a-z]+:.*  ##' $(MAKEFILE_LIST) | $(LIST)
	@echo; echo "For maintainers:"
	@grep -E '^[a-z]+:.*  #:' $(MAKEFILE_LIST) | $(LIST)

# An environment without pip is what an interrupted installation leaves: it is made again.
VENV = $(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv

# Two stamps, so that reading the book does not install what only running and testing it needs.
.venv/.book: pyproject.toml constraints.txt
	@echo "installing what the book needs into .venv"
	@$(VENV)
	@$(PIP) --editable '.[book]'
	@touch $@

# This one does both at once: asking twice takes longer than asking for everything.
.venv/.test: pyproject.toml constraints.txt
	@echo "installing what the book, running and testing need into .venv"
	@$(VENV)
	@$(PIP) --editable '.[book,run,test]'
	@touch .venv/.book $@

# From a clean folder, because an incremental build hides warnings; and only if something changed.
# Subfolders are listed too: a file that was removed changes its folder. A commit is a change: pages name it.
_build/.book: .venv/.book _config.yml _toc.yml tools/chapters.py $(SOURCES) $(wildcard .git/logs/HEAD)
	@rm -rf _build
	@.venv/bin/jupyter-book build book --config _config.yml --toc "$(CURDIR)/_toc.yml" --path-output . --warningiserror --nitpick --keep-going --quiet
	@test -f _build/html/index.html
	@touch $@

book: _build/.book  ## Render the stored notebooks to _build/html (warnings are errors)
	@echo "The book: $(CURDIR)/_build/html/index.html"

lab: .venv/.test  ## Write the chapters for JupyterLab to _build/lab, as Binder shows them
	@$(PY) tools/for_lab.py _build/lab

pdf: _build/.book .venv/.test  ## Print the whole book to _build/mfbook.pdf (needs Chromium)
	@$(PY) tools/pdf.py _build/mfbook.pdf

# ONLY=book/06-long-time.ipynb: a chapter and its wrong programs; ONLY=tests/unit/flow: a folder, all of it.
ONLY ?=
# SKIP=browser where there is none.
SKIP ?=
PYTEST := $(PY) -m pytest --nbval --nbval-current-env --quiet --no-header --tb short
# The cells of a chapter share a kernel, so a file goes to one worker; chapters begin, in the order below.
SPREAD := --numprocesses logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder
# The exit status of the build of the book: tests/book/site waits for it.
BUILT := .cache/build.status
BUILD = $(MAKE) --no-print-directory book

test: .venv/.test  ## Run the tests and build the book: six minutes (ONLY=book/06-long-time.ipynb)
ifdef ONLY
	@$(if $(filter tests tests/book tests/book/site%,$(ONLY)),$(MAKE) --no-print-directory book)
	@$(PYTEST) $(ONLY) $(if $(filter %.ipynb,$(ONLY)),tests/book/test_wrong_programs.py -k $(basename $(notdir $(ONLY))))
else
	@mkdir -p .cache && rm -f $(BUILT)
	@{ $(BUILD) > .cache/build.log 2>&1 && echo 0 || echo 1; } > $(BUILT).new && mv $(BUILT).new $(BUILT) & passed=true; \
	MFBOOK_BUILD="$(CURDIR)/$(BUILT)" $(PYTEST) $(SPREAD) -m 'not weekly$(if $(SKIP), and not $(SKIP))' $(CHAPTERS) tests mfbook book/companion tools || passed=false; \
	wait; [ "$$(cat $(BUILT))" = 0 ] || { cat .cache/build.log; echo "make test: the book could not be built"; exit 1; }; \
	$$passed || { echo "make test: something is wrong; it is said above"; exit 1; }
endif

# Each part is a command of its own; with `make -k weekly` one that fails does not stop the others.
weekly: remaining rounding versions mutants  #: All that make test leaves out; an hour or more

remaining: .venv/.test book
	@$(PYTEST) $(SPREAD) -m weekly tests

rounding: .venv/.test  #: Do the chapters show the same digits under random rounding? (CHAPTER=...)
	@$(PY) tools/rounding.py $(if $(CHAPTER),book/$(CHAPTER).ipynb,$(CHAPTERS))

versions: .venv/.test  #: The tests of the package and the chapters with the oldest and newest versions
	@$(PIP) --editable '.[weekly]'
	@$(PY) -m nox

mutants: .venv/.test  #: Change the core of the package in one place at a time: do unit tests notice?
	@$(PIP) --editable '.[weekly]'
	@$(PY) -m mutmut run --max-children 2 '*_mutmut_*7' && $(PY) -m mutmut results

links: .venv/.book  #: Ask for every page outside that the text links to
	@.venv/bin/jupyter-book build book --config _config.yml --toc "$(CURDIR)/_toc.yml" --path-output _build/links --builder linkcheck --quiet

dist: .venv/.test  #: Build the wheel and the source distribution of mfbook in dist/
	@rm -rf dist
	@$(PY) -m build --no-isolation --outdir dist .

run: .venv/.test  ## Re-execute the chapters in place (CHAPTER=03-assumptions for one)
	@$(PY) tools/run_notebooks.py $(if $(CHAPTER),book/$(CHAPTER).ipynb,$(CHAPTERS))

same: .venv/.test  #: Execute the chapters again, and fail unless they give the stored bytes
	@$(PY) tools/run_notebooks.py --check $(if $(CHAPTER),book/$(CHAPTER).ipynb,$(CHAPTERS))

sweep: .venv/.test  ## Compute the results that chapters load from book/data (an hour or two, resumable)
	@cd book && ../$(PY) -m companion.experiments.propagation
	@cd book && ../$(PY) -m companion.experiments.text
	@cd book && ../$(PY) -m companion.experiments.sphere
	@cd book && ../$(PY) -m companion.experiments.cascade

bench: .venv/.test  #: Measure speed against peers, and write the page on performance
	@$(PIP) --editable '.[bench]' || echo "PyTorch and JAX could not be installed: they are left out"
	@$(PY) -m benchmarks

constraints: .venv/.test  #: Write the installed versions to constraints.txt
	@$(PIP) --editable '.[book,run,test,weekly]'
	@$(PY) -m pip freeze --all --exclude-editable | grep -v '^pip==' > constraints.txt
	@touch .venv/.book .venv/.test

clean:  #: Remove what was built, and the environment
	@rm -rf _build .venv .pytest_cache .mypy_cache .hypothesis *.egg-info build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
