# Everything that is built, run and tested here. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help book lab pdf note test weekly wrong rounding elsewhere coverage mutants links dist run same matrix figure sweep bench weights address constraints clean

PYTHON ?= python3
PY := .venv/bin/python
# Exact versions of what is installed; CONSTRAINTS=/dev/null takes the newest that are allowed.
CONSTRAINTS ?= constraints.txt
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)
CHAPTERS := $(wildcard book/*.ipynb)
# Processes that run tests: one for each processor, but at most eight. 0: no other than pytest.
WORKERS ?= logical
SOURCES := $(shell find book mfbook -mindepth 1 ! -path '*/__pycache__*' ! -path '*/.*')

# One thread per linear-algebra call and a fixed hash seed: a second run gives the same bytes.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export PYTHONHASHSEED := 0
# Whatever the shell says: each kernel and worker would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

LIST = sed -E 's/^([a-z]+):.*\#[\#:] */  make \1\t/' | expand -t 20

help:  ## Show this list
	@grep -E '^[a-z]+:.*  ##' $(MAKEFILE_LIST) | $(LIST)
	@echo; echo "For maintainers:"
	@grep -E '^[a-z]+:.*  #:' $(MAKEFILE_LIST) | $(LIST)

# Two stamps, so that reading the book does not install what only running and testing it needs.
.venv/.book: pyproject.toml constraints.txt
	@echo "installing what the book needs into .venv"
	@test -x $(PY) || $(PYTHON) -m venv .venv
	@$(PIP) --editable '.[book]'
	@touch $@

# This one does both at once: asking twice takes longer than asking for everything.
.venv/.test: pyproject.toml constraints.txt
	@echo "installing what the book, running and testing need into .venv"
	@test -x $(PY) || $(PYTHON) -m venv .venv
	@$(PIP) --editable '.[book,run,test]'
	@touch .venv/.book $@

# From a clean folder, because an incremental build hides warnings; and only if something changed.
# Subfolders are listed too: a file that was removed changes its folder. A commit is a change: pages name it.
_build/.book: .venv/.book _config.yml _toc.yml tools/chapters.py tools/set_address.py tools/wrong_programs.py $(SOURCES) $(wildcard .git/logs/HEAD)
	@rm -rf _build
	@.venv/bin/jupyter-book build book --config _config.yml --toc "$(CURDIR)/_toc.yml" --path-output . --warningiserror --nitpick --keep-going --quiet
	@test -f _build/html/index.html
	@touch $@

book: _build/.book  ## Render the stored notebooks to _build/html (warnings are errors)
	@echo "The book: $(CURDIR)/_build/html/index.html"

lab: .venv/.test  ## Write the chapters for JupyterLab to _build/lab, as Binder shows them
	@$(PY) tools/for_lab.py _build/lab

.venv/.pdf: .venv/.book
	@echo "installing what printing needs into .venv"
	@$(PIP) --editable '.[book,pdf]'
	@touch $@

_build/mfbook.pdf: _build/.book .venv/.pdf tools/pdf.py tools/pdf.js tools/pdf.css
	@$(PY) tools/pdf.py $@

pdf: _build/mfbook.pdf  ## Print the whole book to _build/mfbook.pdf (needs Chromium)
	@echo "The book on paper: $(CURDIR)/_build/mfbook.pdf"

note: _build/.book .venv/.pdf  ## Print what is new, with proofs, to _build/note.pdf (needs Chromium)
	@$(PY) tools/note.py

# ONLY=book/06-long-time.ipynb or ONLY=tests/unit/flow: these alone, all of them, from the sources.
ONLY ?=
# SKIP=browser where there is none.
SKIP ?=
PYTEST := $(PY) -m pytest --nbval --nbval-current-env --words --quiet --no-header --tb short --override-ini console_output_style=classic
SPREAD := --numprocesses $(WORKERS) --maxprocesses 8

DAILY := $(PYTEST) $(SPREAD) --turns -m 'not weekly$(if $(SKIP), and not $(SKIP))'
# Where the build of the book leaves its exit status: tests/book/site waits for it.
BUILT := .cache/build.status

test: .venv/.test  ## Run the tests and build the book: six minutes on two cores (ONLY=book/06-long-time.ipynb)
ifdef ONLY
	@$(if $(filter tests/book/site%,$(ONLY)),$(MAKE) --no-print-directory book)
	@$(PYTEST) -m 'not weekly' $(ONLY)
else
	@echo "make test: the chapters and the package, while the book is built; then its pages"
	@mkdir -p .cache && rm -f $(BUILT)
	@{ $(MAKE) --no-print-directory book > .cache/build.log 2>&1 && echo 0 || echo 1; } > $(BUILT) & passed=true; \
	MFBOOK_BUILD=$(CURDIR)/$(BUILT) $(DAILY) tests mfbook tools $(CHAPTERS) || passed=false; \
	wait; [ "$$(cat $(BUILT))" = 0 ] || { cat .cache/build.log; echo "make test: the book could not be built"; exit 1; }; \
	$$passed || { echo "make test: something is wrong; it is said above"; exit 1; }
endif

weekly: .venv/.test book  #: Every test, also those that take minutes, and all wrong programs
	@$(PYTEST) $(SPREAD) tests mfbook tools $(CHAPTERS)

wrong: .venv/.test  #: Every wrong program that a check has to refuse; notes in tests/book/seen.json that they were
	@$(PYTEST) $(SPREAD) -m wrong_program $(wildcard tests/book/test_chapter_*.py)
	@$(PY) tools/turns.py --write

vary: .venv/.test  #: Do the chapters run with other parameters? (CHAPTER=...)
	@$(PY) tools/vary.py $(if $(CHAPTER),book/$(CHAPTER).ipynb)

rounding: .venv/.test  #: Do the chapters show the same digits under random rounding? (CHAPTER=..., resumable)
	@$(PY) tools/elsewhere.py $(if $(CHAPTER),book/$(CHAPTER).ipynb) --only rounding

elsewhere: .venv/.test  #: The same on all machines that this one can stand for (CHAPTER=..., resumable)
	@$(PY) tools/elsewhere.py $(if $(CHAPTER),book/$(CHAPTER).ipynb)

coverage: .venv/.test  #: Which lines and branches of mfbook run in tests and notebooks (at least 98 %)
	@$(PY) -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --nbval --nbval-current-env -m 'not browser' --ignore-glob 'tests/book/test_chapter_*' --ignore tests/oracles/test_mutants.py --cov mfbook --cov-config pyproject.toml --cov-report term --cov-report html tests mfbook $(CHAPTERS)

mutants: .venv/.test  #: Change the package in one place at a time: do unit tests notice? (a sample; resumable)
	@$(PY) tools/mutants.py --sample 0.1

links: .venv/.book  #: Ask for every page outside that the text links to
	@.venv/bin/jupyter-book build book --config _config.yml --toc "$(CURDIR)/_toc.yml" --path-output _build/links --builder linkcheck --quiet

dist: .venv/.test  #: Build the wheel and the source distribution of mfbook in dist/
	@rm -rf dist
	@$(PY) -m build --no-isolation --outdir dist .

run: .venv/.test  ## Re-execute the chapters in place (CHAPTER=03-assumptions for one)
	@$(PY) tools/run_notebooks.py $(if $(CHAPTER),book/$(CHAPTER).ipynb,$(CHAPTERS))

same: .venv/.test  #: Execute the chapters again, and fail unless they give the stored bytes
	@$(PY) tools/run_notebooks.py --check $(if $(CHAPTER),book/$(CHAPTER).ipynb,$(CHAPTERS))

matrix: .venv/.test  #: Compare numbers and tests with the oldest and newest versions (PYTHONS="...")
	@$(PY) tools/matrix.py $(if $(PYTHONS),--pythons $(PYTHONS))

figure: .venv/.test  ## Draw one figure again, with its data (NAME=fig-static-rates)
	@$(PY) tools/figure.py "$(NAME)"

sweep: .venv/.test  ## Compute the results that chapters load from book/data (an hour or two, resumable)
	@$(PY) -m mfbook.book.experiments.propagation
	@$(PY) -m mfbook.book.experiments.text
	@$(PY) -m mfbook.book.experiments.sphere
	@$(PY) -m mfbook.book.experiments.cascade

bench: .venv/.test  #: Measure speed, limits and memory, and write the page on performance (PART=scale for one part)
	@$(PIP) --editable '.[bench]' || echo "PyTorch and JAX could not be installed: they are left out"
	@$(PY) -m benchmarks $(PART)

weights: .venv/.test book  #: Print what each page weighs on a first visit
	@$(PY) tools/weights.py

address: .venv/.book  #: Set the repository's public address everywhere (URL=https://...)
	@$(PY) tools/set_address.py "$(URL)"

constraints: .venv/.test  #: Write the installed versions to constraints.txt
	@$(PY) tools/freeze.py > constraints.new && mv constraints.new constraints.txt
	@touch .venv/.book .venv/.test

clean:  #: Remove what was built, and the environment
	@rm -rf _build .venv .pytest_cache .mypy_cache .hypothesis *.egg-info build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
