# SPDX-License-Identifier: Apache-2.0
# The commands people type. CMakePresets.json holds the builds behind them.
PRESET ?= release
BUILD  := $(if $(filter release,$(PRESET)),build,build-$(PRESET))

.PHONY: all setup configure build train test test-slow test-gpu sanitize bench clean

all: build

setup:
	@tools/setup.sh

configure: setup
	@cmake --preset $(PRESET) --log-level=WARNING >/dev/null

build: configure
	@cmake --build $(BUILD)

# Trains the default model on this repository's own text and prints a sample. Builds no tests.
train: configure
	@cmake --build $(BUILD) --target gradmill_cli
	@$(BUILD)/gradmill train

# Every fast test. Tests that need the slow tier or a GPU say so in their label.
test: build
	@ctest --test-dir $(BUILD) --output-on-failure -LE 'slow|gpu' -j2

# Whole training runs: minutes.
test-slow: build
	@ctest --test-dir $(BUILD) --output-on-failure -L slow

test-gpu: build
	@ctest --test-dir $(BUILD) --output-on-failure -L gpu --no-tests=ignore

# The whole suite under AddressSanitizer with UBSan, then ThreadSanitizer.
sanitize:
	@$(MAKE) test PRESET=asan
	@$(MAKE) test PRESET=tsan

# This build beside PyTorch, in one run. PYTHON names an interpreter that has torch.
PYTHON ?= python3
bench: build
	@$(PYTHON) bench/compare_cpu.py --python $(PYTHON)

clean:
	@rm -rf build build-*
