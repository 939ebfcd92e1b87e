# SPDX-License-Identifier: Apache-2.0
# The commands people type. CMakePresets.json holds the builds behind them.
PRESET ?= release
BUILD  := $(if $(filter release,$(PRESET)),build,build-$(PRESET))

# The usual build has the CUDA half where nvcc and a GPU are; CUDA=on or CUDA=off says otherwise.
HAS_NVCC = $(shell command -v nvcc)
HAS_GPU  = $(shell nvidia-smi -L >/dev/null 2>&1 && echo yes || { test -e /dev/nvidia0 && echo yes; })
CUDA    ?= $(if $(HAS_NVCC),$(if $(HAS_GPU),on,off),off)
WITH_CUDA = $(if $(filter release,$(PRESET)),-DGRADMILL_CUDA=$(CUDA))
# WERROR=on makes warnings errors, as in CI. By default a newer compiler's warnings do not break a build.
WITH_WERROR = $(if $(WERROR),-DGRADMILL_WERROR=$(WERROR))

.PHONY: all setup configure build train test test-slow test-gpu test-paper test-paper-all on-paper sanitize sanitize-gpu bench bench-gpu dist clean

all: build

setup:
	@tools/setup.sh

configure: setup
	@cmake --preset $(PRESET) $(WITH_CUDA) $(WITH_WERROR) --log-level=WARNING >/dev/null

build: configure
	@cmake --build $(BUILD)

# Trains the default model on this repository's own text and prints a sample. Builds no tests.
train: configure
	@$(if $(HAS_NVCC),,$(if $(HAS_GPU),echo "train: a GPU is here but not nvcc (CUDA 13 has it): training on the CPU"))
	@cmake --build $(BUILD) --target gradmill_cli
	@$(BUILD)/gradmill train

# Every fast test. Tests that need the slow tier or a GPU say so in their label.
test: build
	@ctest --test-dir $(BUILD) --output-on-failure -LE 'slow|gpu|paper' -j2

# Whole training runs: minutes.
test-slow: build
	@ctest --test-dir $(BUILD) --output-on-failure -L slow

# Tests on a GPU; each says so itself where there is none.
test-gpu:
	@if [ -n "$(HAS_NVCC)" ]; then \
	  $(MAKE) --no-print-directory build CUDA=on && ctest --test-dir $(BUILD) --output-on-failure -L gpu; \
	else echo "test-gpu: SKIPPED, nothing was tested: nvcc is not on the PATH (CUDA 13 has it)"; fi

# Tests for a GPU on one that is only on paper and executes the kernels' PTX: wherever nvcc is, with or without a GPU.
test-paper:
	@$(MAKE) --no-print-directory on-paper PRESET=paper TIER=-L\ paper\ -LE\ all

# The same for every generation of GPUs, and in every order of what may come in any order: hours.
test-paper-all:
	@$(MAKE) --no-print-directory on-paper PRESET=paper-all TIER=-L\ paper

on-paper:
	@if [ -n "$(HAS_NVCC)" ]; then \
	  $(MAKE) --no-print-directory configure && cmake --build $(BUILD) --target paper_tests && \
	  ctest --test-dir $(BUILD) --output-on-failure $(TIER) -j2; \
	else echo "test-paper: SKIPPED, nothing was tested: nvcc is not on the PATH (CUDA 13 has it)"; fi

# The ops under compute-sanitizer: memory, races, uninitialised reads.
sanitize-gpu:
	@$(MAKE) --no-print-directory build CUDA=on
	@SANITIZE=on tools/gpu_check.sh $(BUILD) $(BUILD)

# The whole suite under AddressSanitizer with UBSan, then ThreadSanitizer.
sanitize:
	@$(MAKE) test PRESET=asan
	@$(MAKE) test PRESET=tsan

# This build beside PyTorch, in one run. PYTHON names an interpreter that has torch.
PYTHON ?= python3
bench: build
	@$(PYTHON) bench/compare_cpu.py --python $(PYTHON)

bench-gpu:
	@$(MAKE) --no-print-directory build CUDA=on
	@$(PYTHON) bench/compare_gpu.py --binary $(BUILD)/gradmill --python $(PYTHON) --set compile.mode=max-autotune

# dist/: the binary with CUDA and the libraries it needs, for machines that have no compiler. TESTS=on adds the tests, or
# TESTS="ops_test cuda_test" some of them; DIST_CUDA=on adds cuBLASLt and cuDNN. PRESET=cuda-all is for every GPU.
TESTS       ?=
DIST_PRESET := $(if $(filter release,$(PRESET)),cuda,$(PRESET))
dist:
	@$(MAKE) --no-print-directory configure PRESET=$(DIST_PRESET)
	@cmake --build build-$(DIST_PRESET) $(if $(filter on,$(TESTS)),,--target gradmill_cli $(TESTS))
	@TESTS="$(TESTS)" DIST_CUDA=$(DIST_CUDA) tools/make_dist.sh build-$(DIST_PRESET) dist

clean:
	@rm -rf build build-* dist
