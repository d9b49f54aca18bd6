# Every target sets itself up: a virtual environment in .venv with the pinned versions of constraints.txt.
# A stamp in .venv remembers each finished installation; a change to the files below repeats it.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED_FROM := pyproject.toml constraints.txt

# Python keeps what it compiled, also where the environment forbids it: each of the many processes that
# the tests start would otherwise compile torch and transformers anew, which takes longer than most tests.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help quickstart release test fast kernels lab-tests lint common-tests newest soak site clean
# Two installations into one environment must not run at the same time under `make -j`.
.NOTPARALLEL:

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

quickstart: .venv/ready-base ## Train on a small synthetic corpus, then show accuracy and attention
	@OMP_NUM_THREADS=1 $(BIN)/python scripts/quickstart.py

# The names are examples; the licence is that of the synthetic texts.
PUBLISH = $(BIN)/python scripts/push.py runs/quickstart/model someone/quickstart --license apache-2.0 --language en
release: .venv/ready-release quickstart ## Check what a published model and its Space would hold; send nothing
	@$(PUBLISH) --onnx --dry_run
	@$(PUBLISH) --space --dry_run

# A process for each core and one more, as some wait, with one thread: for the small models of the tests,
# more threads cost more than they save. The tests of a file run in one process, which makes its
# checkpoints once.
CORES := $(shell env -u OMP_NUM_THREADS nproc 2> /dev/null || getconf _NPROCESSORS_ONLN)
PYTEST_FLAGS := -q --numprocesses $(shell expr $(CORES) + 1) --dist loadfile --no-loadscope-reorder
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_FLAGS)

# The exports take a fifth of the time of all tests, and few changes reach them.
LAB := tests/lab tests/serving/test_onnx_export.py
test: .venv/ready-test ## Run the test suite
	@$(PYTEST) $(LAB:%=--ignore %)

fast: .venv/ready-test ## Run the tests that start no process of their own
	@$(PYTEST) $(LAB:%=--ignore %) -m "not slow"

# What computes with torch or numpy and compares the numbers: these may differ on another processor.
KERNELS := tests/models tests/evaluation tests/training/test_trainer.py tests/training/test_train_script.py \
	tests/tasks/test_first_vectors.py tests/visualization/test_learned_words.py tests/lab/test_pages.py
kernels: .venv/ready-test ## Run the fast tests whose numbers depend on the processor
	@$(PYTEST) -m "not slow" $(KERNELS)

lab-tests: .venv/ready-test ## Run the tests of scripts/lab and of the ONNX export
	@$(PYTEST) $(LAB)

lint: .venv/ready-lint ## Check size, style, formatting and types
	$(BIN)/python .ci/budget.py
	$(BIN)/python .ci/imports.py
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Warnings and markers of these tests are not ours. ARGS go on to pytest: make common-tests ARGS="-k checkpointing"
COMMON_TESTS := -q -o addopts= -o filterwarnings=default --disable-warnings tests/lab/transformers_common.py
common-tests: .cache/transformers_tests ## Run the model tests of transformers itself (downloads its source)
	@PYTHONPATH=.cache OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(COMMON_TESTS) $(ARGS)

# The tests are in the source distribution of transformers and not in the installed package. The first
# argument is the Python whose version of transformers is meant, the second the folder of the tests.
define fetch_common_tests
@rm -rf $(2) $(2).part && mkdir -p $(2).part
@$(1) -m pip download --quiet --disable-pip-version-check --no-deps --no-binary transformers --dest $(2).part \
	transformers==$$($(1) -c 'import importlib.metadata as m; print(m.version("transformers"))')
@tar -xzf $(2).part/transformers-*.tar.gz -C $(2).part --strip-components=2 --exclude '*/src'
@touch $(2).part/__init__.py && mv $(2).part $(2)
endef

.cache/transformers_tests: constraints.txt .venv/ready-test
	$(call fetch_common_tests,$(BIN)/python,$@)

# In an environment of its own, upgraded by each run: `make test` keeps the versions of constraints.txt.
NEWEST := .venv-newest
newest: ## Run the fast tier and transformers' model tests on the newest packages of the registry
	@[ -x $(NEWEST)/bin/pip ] || $(PYTHON) -m venv $(NEWEST)
	@$(NEWEST)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
		--upgrade --upgrade-strategy eager --editable '.[test]'
	@$(NEWEST)/bin/python -m pip list --disable-pip-version-check | grep -E '^(torch|transformers|tokenizers) '
	$(call fetch_common_tests,$(NEWEST)/bin/python,$(NEWEST)/transformers_tests)
	@OMP_NUM_THREADS=1 $(NEWEST)/bin/python -m pytest $(PYTEST_FLAGS) --ignore tests/lab -m "not slow"
	@PYTHONPATH=$(NEWEST) OMP_NUM_THREADS=1 $(NEWEST)/bin/python -m pytest $(COMMON_TESTS) $(ARGS)

# A shorter run is a check and leaves the record: make soak ARGS="--minutes 10"
soak: .venv/ready-test ## Kill runs and spoil files for an hour; write the record
	@OMP_NUM_THREADS=1 $(BIN)/python scripts/lab/soak.py $(or $(ARGS),--record model_cards/records/soak.json)

# mkdocs has an environment of its own: no test and no command needs it.
SITE := .venv-site
SHOWN := README.md SECURITY.md CONTRIBUTING.md CHANGELOG.md LICENSE CITATION.cff model_cards scripts \
	sase_hf/training/command_line.py
site: quickstart ## Build the site from the guide, and the quickstart's report and page, into runs/site/html
	@[ -x $(SITE)/bin/mkdocs ] || { $(PYTHON) -m venv $(SITE) && \
		$(SITE)/bin/pip install --quiet --disable-pip-version-check mkdocs==1.6.1 mkdocs-material==9.8.2 \
		mkdocs-jupyter==0.26.3; }
	@rm -rf runs/site && mkdir -p runs/site/docs
	@git archive HEAD $(SHOWN) | tar -xC runs/site/docs
	@cp runs/quickstart/model/report.html runs/site/docs/report.html
	@$(BIN)/python scripts/export.py runs/quickstart/model runs/site/docs/model.html
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet --strict

clean: ## Remove the environment, caches and build files
	rm -rf .venv $(NEWEST) $(SITE) build dist *.egg-info .cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

extras_base :=
extras_release := [onnx]
extras_test := [test]
extras_lint := [test,lint]

.venv/ready-%: $(INSTALLED_FROM)
	@# pip cannot repair an interrupted installation, so such an environment is deleted.
	@if [ -e .venv/unfinished ]; then rm -rf .venv; fi
	@[ -x $(BIN)/pip ] || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "sase_hf needs Python 3.11 or newer; '$(PYTHON)' is not. Name one: make PYTHON=python3.12"; exit 1; }
	@echo "Installing the pinned packages into .venv: about a minute, longer where torch comes with CUDA."
	@mkdir -p .venv && touch .venv/unfinished
	@[ -x $(BIN)/pip ] || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check \
		--constraint constraints.txt --editable '.$(extras_$*)' || { \
		rm -f .venv/unfinished; echo "The installation failed; 'make clean' lets the next one start anew."; exit 1; }
	@rm .venv/unfinished && touch .venv/ready-base $@
