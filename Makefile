# A fresh machine only needs python3 (>= 3.11) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# some images set it; then each of the tests' hundreds of processes would compile all modules again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install test test-slow test-wheel test-all test-hard checks lint demo validate bench chaos docs evidence gpu c-client c-client-test clean

help:
	@echo "make demo       train the D-cylinder wake for a few minutes, save a film and a plot, and evaluate in a finer flow"
	@echo "make test       lint, types and the quick tests"
	@echo "make test-slow  the slow tests: fault injection, whole trainings, the documentation site (CI runs both)"
	@echo "make test-hard  all tests ten times in a row, on a busy machine and with processes that are stopped (hours)"
	@echo "make test-all   all tests with Ray, stable-baselines3, TorchRL, Atari, MinAtar and PettingZoo installed, and a cluster of two nodes"
	@echo "make test-wheel build the source archive and the wheel, check them, and use them in a clean environment"
	@echo "make validate   compare the solver with published values, all cases (about an hour), and write their page"
	@echo "make bench      measure the speed of the solver against jax-cfd (2 minutes; leave the machine idle meanwhile)"
	@echo "make chaos      runs with injected faults for up to twenty minutes, audited for lost and duplicated experience"
	@echo "make docs       build the site of docs/ into build/site, without network; a broken link or a warning is an error"
	@echo "make evidence   all measurements on one clean commit, and the page with the commit of each result"
	@echo "make gpu        all checks and measurements on a GPU, in under ten minutes"
	@echo "make c-client   build the client for environments in C and Fortran, with its examples, into build/c"
	@echo "make clean      remove the virtual environment and the caches"

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "flowsim needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@echo "installing flowsim and its dependencies into $(VENV), which takes one to three minutes"
	PYTHONWARNINGS='ignore:Editable' $(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	@touch $@

# the last line of each says what failed
LINT := { $(BIN)/ruff check . && $(BIN)/ruff format --check . || { echo "lint failed"; false; }; }
TYPES := { $(BIN)/mypy || { echo "mypy failed"; false; }; }
PYTEST := $(BIN)/python -m pytest -q
# the GPU kernels run in numba's simulator, which must be selected before numba is imported
SIMULATOR := { NUMBA_ENABLE_CUDASIM=1 $(PYTEST) tests/cuda || { echo "the tests in the simulator of a GPU failed"; false; }; }
CHECKS := build/checks.log
# compile the solver before the tests, on all cores and with a message, rather than within a test
COMPILE := $(BIN)/python -c 'from numba import get_num_threads; from flowsim import Disk, Grid, Simulation; \
	[Simulation(Grid(16, 16, 0.1), bodies=[Disk()], viscosity=0.01, batch=2, dtype=dtype, threads=threads) \
	 for dtype, threads in (("float32", 1), ("float32", min(2, get_num_threads())), ("float64", 1))]'
TEST_WORKERS ?= 2

lint: install
	$(LINT)
	$(TYPES)

checks: lint
	$(SIMULATOR)

# lint, types and the simulator run in parallel with the tests; their output follows, in one line if all pass
test: install
	@mkdir -p $(dir $(CHECKS))
	@{ $(LINT) && $(TYPES) && $(SIMULATOR); } > $(CHECKS) 2>&1 & checks=$$!; trap 'kill $$checks 2> /dev/null' INT TERM; \
	$(COMPILE); \
	$(PYTEST) -n $(TEST_WORKERS) --dist worksteal --durations=10 -m 'not slow and not cluster'; tests=$$?; \
	if wait $$checks; then echo "lint, types and the kernels in the simulator of a GPU are fine: $$(tail -n 1 $(CHECKS))"; \
	else cat $(CHECKS); echo "make test: RED, $$(tail -n 1 $(CHECKS)): see above, or $(CHECKS)"; checks=failed; fi; \
	if [ $$tests != 0 ]; then echo "make test: RED, the tests ended with $$tests: see above"; exit $$tests; fi; \
	[ "$$checks" != failed ]

# tests that each take more than a few seconds on a machine with two cores
test-slow: install
	@$(COMPILE)
	$(PYTEST) -n $(TEST_WORKERS) --dist worksteal --durations=10 -m 'slow and not cluster'

# ten complete runs including slow tests, next to busy processes or with processes stopped at random; resumable
test-hard: install
	$(BIN)/python benchmarks/hard_tests.py $(HARD)

# build source archive and wheel, check them with twine and use them in a clean environment; minutes, 1.5 GB meanwhile
test-wheel: install
	$(BIN)/python benchmarks/wheel.py

# with the optional libraries used by tests: games, other RL libraries, and a Ray cluster of two nodes on this machine
test-all: install
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,ray,slurm,sb3,torchrl,atari,minatar,box2d,sisl,optuna]'
	$(MAKE) test test-slow
	$(BIN)/python -m pytest -q --durations=10 -m cluster

DEMO := demo-$(shell date +%Y%m%d-%H%M%S)
DEMO_STEPS ?= 20000

demo: install
	$(BIN)/flowsim train d_cylinder_wake/quick run.name=$(DEMO) run.steps=$(DEMO_STEPS) run.evaluate_episodes=48
	$(BIN)/flowsim render runs/$(DEMO) -o runs/$(DEMO)/wake.mp4 --actions 60
	$(BIN)/flowsim plot runs/$(DEMO) -o runs/$(DEMO)/curves.png
	@echo
	@echo "film saved: runs/$(DEMO)/wake.mp4; evaluating 12 episodes in the flow of the preset default, at twice the resolution"
	$(BIN)/flowsim evaluate runs/$(DEMO) env_options.cells_per_diameter=32 --episodes 12 --deterministic
	@echo
	@echo "film:  runs/$(DEMO)/wake.mp4 (and wake.gif)"
	@echo "plot:  runs/$(DEMO)/curves.png"
	@echo "run:   runs/$(DEMO) (flowsim evaluate, flowsim resume, tensorboard --logdir)"

VALIDATION := benchmarks/results/validation

# a row outside its tolerance fails the target, but only after the page has been written
validate: install
	status=0; $(BIN)/flowsim validate -o $(VALIDATION) || status=$$?; \
	$(BIN)/flowsim validate -o $(VALIDATION) --page docs/studies/validation.md; exit $$status

# needs a GPU, and flowsim-rl[cuda12] or flowsim-rl[cuda13] installed for GPU_PYTHON
GPU_PYTHON ?= python3
gpu:
	$(GPU_PYTHON) benchmarks/speed/gpu.py -o $(or $(OUTPUT),gpu)

bench: install
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/flowsim bench solver

# needs gcc and libzmq's header (Debian: gcc libzmq3-dev), and gfortran for the Fortran part
C_BUILD ?= build/c
C_FLAGS := -O2 -Wall -Wextra -Werror -Icoupling/c
C_LIBRARIES := -lzmq -lpthread -lm
C_COMPILE = $(CC) -std=c99 -pedantic $(C_FLAGS)
FORTRAN ?= gfortran

c-client:
	@mkdir -p $(C_BUILD)
	@echo '#include <zmq.h>' | $(CC) -fsyntax-only -x c - || (echo "make c-client needs gcc and the header of libzmq" && false)
	$(C_COMPILE) -fPIC -c coupling/c/flowsim_client.c -o $(C_BUILD)/flowsim_client.o
	ar rcs $(C_BUILD)/libflowsim_client.a $(C_BUILD)/flowsim_client.o
	$(C_COMPILE) coupling/c/example.c $(C_BUILD)/libflowsim_client.a $(C_LIBRARIES) -o $(C_BUILD)/example
	@if command -v $(FORTRAN) > /dev/null; then set -ex; \
	$(FORTRAN) -std=f2008 $(C_FLAGS) -J$(C_BUILD) coupling/c/flowsim_client.f90 coupling/c/example.f90 \
		$(C_BUILD)/libflowsim_client.a $(C_LIBRARIES) -o $(C_BUILD)/example_fortran; \
	else echo "$(FORTRAN) not found: the Fortran example is not built"; fi

c-client-test: c-client
	$(CC) -shared $(C_BUILD)/flowsim_client.o $(C_LIBRARIES) -o $(C_BUILD)/libflowsim_client.so
	$(C_COMPILE) -g -fsanitize=address,undefined -fno-sanitize-recover=all tests/coupling/c/golden_vectors.c $(C_LIBRARIES) -o $(C_BUILD)/golden_vectors

# the half-hour soak test is separate: .venv/bin/python benchmarks/service/soak.py
chaos: install
	$(BIN)/python benchmarks/service/chaos.py $(CHAOS)

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html (with its search: $(BIN)/python -m http.server --directory build/site)"

# resumable; runs only the parts without a result for this commit's code
evidence: install
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,bench,sb3]'
	$(BIN)/python benchmarks/evidence.py $(EVIDENCE)

clean:
	rm -rf $(VENV) $(C_BUILD) .mypy_cache .ruff_cache .pytest_cache
