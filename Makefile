# make demo, make test: everything on a fresh machine, from the virtual environment on.

PYTHON ?= python3
BIN := .venv/bin
DEMO := curro compare uniform frontier --data lab:spell_backward --limit 1000 \
	--rollouts 12800 --seeds 2 --eval-every 100 --eval-prompts 300 --out runs/demo

# one thread a process: two that share two cores slow each other down up to twenty times
export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint docs docs-blocks browser verl

demo: .venv/train
	$(BIN)/$(DEMO)

test: .venv/dev
	$(BIN)/python -m pytest -n 2

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/dev
	$(BIN)/zensical build --clean --strict

docs-blocks: .venv/dev
	$(BIN)/python -m pytest -n 2 --dist loadfile README.md CONTRIBUTING.md docs

browser: .venv/dev
	$(BIN)/python -m pytest tests/browser

# verl wants other versions than the rest: an environment of its own, and verl 0.7.1 beside it
verl: .venv-verl/verl
	VERL_071=$(CURDIR)/.venv-verl/verl-0.7.1 HF_DATASETS_CACHE=$(CURDIR)/.venv-verl/datasets \
		.venv-verl/bin/python -m pytest -c tests/verl/pytest.ini -n 2 --dist worksteal tests/verl

# torch first and alone: a build of it that is there already (for the CPU, for another CUDA) is kept
.venv/torch: constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	touch $@

.venv/train: .venv/torch pyproject.toml
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train]'
	touch $@

.venv/dev: .venv/torch pyproject.toml
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	touch $@

.venv-verl/verl: constraints-verl.txt pyproject.toml
	test -d .venv-verl || $(PYTHON) -m venv .venv-verl
	.venv-verl/bin/python -m pip install --quiet --constraint constraints-verl.txt torch
	.venv-verl/bin/python -m pip install --quiet --constraint constraints-verl.txt --editable '.[verl]' \
		hypothesis pytest pytest-xdist
	.venv-verl/bin/python -m pip install --quiet --no-deps --target .venv-verl/verl-0.7.1 verl==0.7.1
	touch $@
