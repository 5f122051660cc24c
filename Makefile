# Every target makes what it needs: only Python 3.11 or newer and make must be there.
# Paths are relative, so the checkout may lie in a directory with spaces in its name.

VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.base-installed
LM := $(VENV)/.lm-installed
DEV := $(VENV)/.dev-installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TEXT := ../shared/data
LANGS := bg,cs,da,de,el,en,es,et,fi,fr,hu,it,lt,lv,nl,pl,pt,ro,sk,sl,sv

.DEFAULT_GOAL := help
.PHONY: help demo test coverage lint check man bench gpu-check install-check clean

help: ## Show this list
	@echo "modtok: modular multilingual tokenizers"
	@echo
	@sed -n 's/^\([a-z][a-z-]*\):.*## /  make \1|/p' Makefile | while IFS='|' read -r target text; do \
		printf '%-16s %s\n' "$$target" "$$text"; done

demo: $(LM) ## All of it on the sample text: learn, pretrain, evaluate, slice, report
	@PATH="$$PWD/$(BIN):$$PATH" sh examples/demo.sh demo

test: $(DEV) ## Run all tests
	@$(BIN)/python -m pytest -n 2

# Compiled code cannot be measured: kernels run once as the Python they are written in.
KERNELS := tests/learn tests/text tests/modular tests/pretrain/test_rows_kernel.py

coverage: $(DEV) ## Run all tests, kernels also uncompiled, and say what they cover (half an hour)
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest -n 2 -p no:cacheprovider
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m pytest -n 2 -p no:cacheprovider $(KERNELS)
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report --sort=cover --skip-covered

lint: $(DEV) ## Check style and types
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy

check: lint test ## What a change must pass

man: $(BASE) ## Write the man pages anew from the commands
	@$(BIN)/python -m modtok_cli.cli.manpage man

bench: $(DEV) ## Run the benchmarks on the text under TEXT (corpus/, ntrex/), JSON lines
	@test -d '$(TEXT)/corpus' -a -d '$(TEXT)/ntrex' || { echo "make: no text to measure on;" \
		"name a directory with corpus/<lang>.jsonl.zst and ntrex/<lang>.txt: make bench TEXT=..." >&2; \
		exit 1; }
	@$(BIN)/python -m benchmarks counting '$(TEXT)/corpus/en.jsonl.zst' '$(TEXT)/corpus/fr.jsonl.zst'
	@$(BIN)/modtok bpe-seq --langs $(LANGS) --data '$(TEXT)/corpus' -o build/bench-tokenizer --json
	@$(BIN)/python -m benchmarks encoding build/bench-tokenizer '$(TEXT)/corpus/fr.jsonl.zst'
	@$(BIN)/python -m benchmarks agreement build/bench-tokenizer '$(TEXT)/ntrex'
	@$(BIN)/python -m benchmarks measuring '$(TEXT)/ntrex' build/bench-tokenizer \
		build/bench-tokenizer@en build/bench-tokenizer@de,en build/bench-tokenizer@es,it,pt \
		build/bench-tokenizer@bg,el build/bench-tokenizer@et,fi

gpu-check: $(DEV) ## Tests of pretraining in bfloat16 on a GPU, and timings into benchmarks/results
	@$(BIN)/python -m benchmarks gpu_check

install-check: $(BIN)/python ## Build the wheel, try it in empty environments, each extra alone
	@$(BIN)/python .ci/install_check.py

clean: ## Take away what the other targets made, the environment too
	rm -rf $(VENV) demo build dist .coverage .coverage.* *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@sh .ci/make-venv.sh $(VENV)

$(BASE): $(BIN)/python pyproject.toml
	@echo "installing modtok and what it needs into $(VENV) (once, a minute or two)"
	@$(PIP) --editable .
	@touch $@

$(LM): $(BASE) pyproject.toml
	@echo "installing what training and evaluating need into $(VENV)"
	@# torch is named exactly: a range would take its newest build, with several GB of CUDA
	@# packages, where the machine has a smaller one.
	@$(PIP) 'torch==2.13.0' --editable '.[lm,eval]'
	@touch $@

$(DEV): $(BASE) pyproject.toml
	@echo "installing what tests and checks need into $(VENV)"
	@# torch is named exactly: a range would take its newest build, with several GB of CUDA
	@# packages, where the machine has a smaller one.
	@$(PIP) 'torch==2.13.0' --editable '.[tiktoken,plot,corpus,lm,eval,dev]'
	@touch $@
