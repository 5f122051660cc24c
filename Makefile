# Every target creates what it needs; it requires only Python 3.11 or newer and make.
# Paths are relative, so the path of the checkout may contain spaces.

VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.base-installed
LM := $(VENV)/.lm-installed
DEV := $(VENV)/.dev-installed
DOCS := $(VENV)/.docs-installed
RELEASE := $(VENV)/.release-installed
CORE := modtok_cli/core/libmodtok.so
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PIP_WHEEL := $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir
TEXT := ../shared/data
LANGS := bg,cs,da,de,el,en,es,et,fi,fr,hu,it,lt,lv,nl,pl,pt,ro,sk,sl,sv

# Tests start many commands; without compiled modules each takes 0.2 s more.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test coverage lint check man docs bench models-check sanitize fuzz mutants gpu-check gpu-bundle gpu-rehearsal install-check sdist wheels release publish image clean

help: ## Show this list
	@echo "modtok: modular multilingual tokenizers"
	@echo
	@sed -n 's/^\([a-z][a-z-]*\):.*## /  make \1|/p' Makefile | while IFS='|' read -r target text; do \
		printf '%-16s %s\n' "$$target" "$$text"; done

demo: $(LM) $(CORE) ## Run every step on the sample text: learn, pretrain, evaluate, slice, report
	@PATH="$$PWD/$(BIN):$$PATH" sh examples/demo.sh demo

test: $(DEV) $(CORE) ## Run all tests
	@$(BIN)/python -m pytest -n 3 --dist worksteal

coverage: $(DEV) $(CORE) ## Run all tests and report coverage of the Python code (half an hour)
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest -n 2 -p no:cacheprovider
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report --sort=cover --skip-covered

lint: $(DEV) $(CORE) ## Check style and types
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@find modtok_cli/core/src tests/core benchmarks -name '*.[ch]' -exec $(BIN)/clang-format --dry-run --Werror {} +
	@$(BIN)/python -m mypy

check: lint test ## Run lint and test: what a change must pass

man: $(BASE) $(CORE) ## Generate the man pages from the commands
	@$(BIN)/python -m modtok_cli.cli.manpage man

docs: $(DOCS) $(CORE) ## Build the documentation site in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "wrote build/site; open build/site/index.html, or run $(BIN)/python -m mkdocs serve"

bench: $(DEV) $(CORE) ## Run the benchmarks on the text in TEXT (corpus/, ntrex/); prints JSON lines
	@test -d '$(TEXT)/corpus' -a -d '$(TEXT)/ntrex' || { echo "make: no text to measure on;" \
		"name a directory with corpus/<lang>.jsonl.zst and ntrex/<lang>.txt: make bench TEXT=..." >&2; \
		exit 1; }
	@$(BIN)/modtok bpe-seq --langs $(LANGS) --data '$(TEXT)/corpus' --pretokenizer gpt2 -o build/bench-tokenizer --json
	@$(BIN)/python -m benchmarks encoding_peers build/bench-tokenizer '$(TEXT)/corpus/fr.jsonl.zst'
	@$(BIN)/python -m benchmarks agreement build/bench-tokenizer '$(TEXT)/ntrex'

models-check: $(DEV) $(CORE) ## Fetch SmolLM2 and Gemma 3 (350 MB), slice them, compare ids, logits and output
	@$(BIN)/python -m benchmarks published_models build/models '$(TEXT)/ntrex'

sanitize: $(DEV) $(CORE) ## Test the native core with sanitizers (needs gcc; minutes)
	@$(BIN)/python .ci/core_checks.py sanitize

SECONDS := 300
fuzz: $(BIN)/python ## Fuzz the native core, SECONDS for each of seven harnesses (needs clang)
	@$(BIN)/python .ci/core_checks.py fuzz $(SECONDS)

PACKAGE := tokenizer
COUNT := 30
MUTANTS := $(VENV)/.mutants-installed
mutants: $(MUTANTS) $(CORE) ## Plant COUNT faults in PACKAGE, run the tests that cover them, print what survives
	@$(BIN)/python .ci/mutants plant $(PACKAGE) --count $(COUNT)

CALL := 1
gpu-check: $(DEV) $(CORE) ## Measure pretraining on a GPU, CALL=1, 2 or 3: three, eight and nine minutes
	@$(BIN)/python -m benchmarks gpu_check $(CALL)

FOR := 3.12
gpu-bundle: $(DEV) $(CORE) ## Pack what gpu-check needs on a machine without a network, for Python FOR, with a tokenizer of TEXT
	@$(BIN)/python -m benchmarks gpu_bundle build/gpu-bundle --python $(FOR) $(if $(TEXT),--text $(TEXT))

REHEARSAL := build/gpu-rehearsal
gpu-rehearsal: $(REHEARSAL)/.installed $(CORE) ## Pretrain as on GPUs with a stub of the driver (5 GB, an hour)
	@$(REHEARSAL)/venv/bin/python -m benchmarks gpu_rehearsal

EXTRAS := ,published,plot,data,corpus,lm,eval,log
install-check: $(BIN)/python ## Build the wheel and test it in empty environments, with each of EXTRAS
	@$(BIN)/python .ci/install_check.py --extras '$(EXTRAS)'

URL :=
sdist: $(RELEASE) ## Build dist/ with the sources of the last commit, links to URL=https://...
	@rm -rf build/sdist dist && mkdir -p build/sdist
	@$(BIN)/python .ci/release.py stage build/sdist --url '$(URL)'
	@$(BIN)/python -m build --sdist --outdir dist build/sdist >build/sdist.log || \
		{ cat build/sdist.log; exit 1; }
	@rm -rf build/sdist

wheels: sdist ## Build dist/ with the sources and with wheels for Linux and macOS
	@for target in $$($(BIN)/python modtok_cli/core/backend.py --targets); do \
		MODTOK_TARGET=$$target $(PIP_WHEEL) dist dist/modtok-*.tar.gz || exit 1; \
	done
	@ls -l dist

TAG :=
release: wheels ## Build dist/, check metadata, contents and installation, write SHA256SUMS
	@$(BIN)/python -m twine check --strict dist/*.whl dist/*.tar.gz
	@$(BIN)/python .ci/install_check.py --dist dist --extras ''
	@$(BIN)/python .ci/release.py check dist --tag '$(TAG)'

publish: ## Upload what `make release` checked in dist/ to the package index
	@test -f dist/SHA256SUMS || { echo "make: no dist/SHA256SUMS; first: make release" >&2; exit 1; }
	@cd dist && sha256sum --check --quiet SHA256SUMS
	@$(BIN)/python -m twine upload dist/*.whl dist/*.tar.gz

DEVICE := cpu
BUILDER := docker build
image: ## Build the image modtok:DEVICE, cpu or gpu, by BUILDER
	@$(BUILDER) --build-arg DEVICE=$(DEVICE) -t modtok:$(DEVICE) .

clean: ## Remove everything that other targets created, the environment too
	rm -rf $(VENV) demo build dist .coverage .coverage.* *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@sh .ci/make-venv.sh $(VENV)

# The native core is compiled when the package is installed; here again when its sources change.
$(CORE): $(BIN)/python modtok_cli/core/backend.py $(wildcard modtok_cli/core/src/*.* modtok_cli/core/src/*/*.c)
	@echo "compiling the native core"
	@$(BIN)/python modtok_cli/core/backend.py

$(BASE): $(BIN)/python pyproject.toml
	@echo "installing modtok and what it needs into $(VENV) (once, a minute or two)"
	@$(PIP) --editable .
	@touch $@

$(LM): $(BASE) pyproject.toml
	@echo "installing what training and evaluating need into $(VENV)"
	@# torch is named exactly: a range would take its newest build, with several GB of CUDA
	@# packages, where the machine has a smaller one.
	@$(PIP) 'torch==2.13.0' --editable '.[lm,eval,plot]'
	@touch $@

# The CUDA build of torch, whatever PIP_FIND_LINKS offers beside it.
$(REHEARSAL)/.installed: pyproject.toml
	@mkdir -p $(REHEARSAL)
	@test -x $(REHEARSAL)/venv/bin/python || sh .ci/make-venv.sh $(REHEARSAL)/venv
	@echo "installing the CUDA build of torch into $(REHEARSAL)/venv"
	@$(REHEARSAL)/venv/bin/python -m pip install --quiet --disable-pip-version-check \
		'torch==2.13.0,!=2.13.0+cpu' --editable '.[lm]' pytest hypothesis
	@touch $@

# Builds and checks only: modtok itself is not installed.
$(RELEASE): $(BIN)/python pyproject.toml
	@echo "installing what releases need into $(VENV)"
	@$(PIP) 'build>=1.2' 'twine>=6.1' # 6.1: metadata 2.4, and publishing without a stored password
	@touch $@

$(MUTANTS): $(DEV)
	@$(PIP) 'cosmic-ray>=8.7'
	@touch $@

$(DOCS): $(BASE) pyproject.toml
	@echo "installing mkdocs into $(VENV)"
	@$(PIP) --editable '.[docs]'
	@touch $@

$(DEV): $(BASE) pyproject.toml
	@echo "installing what tests and checks need into $(VENV)"
	@# torch is named exactly: a range would take its newest build, with several GB of CUDA
	@# packages, where the machine has a smaller one.
	@$(PIP) 'torch==2.13.0' --editable '.[published,plot,corpus,lm,eval,log,dev]'
	@touch $@
