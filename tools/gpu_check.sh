#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_check.sh DIST [OUT]: the GPU tests of a folder made by `make dist TESTS=...`, a line each; logs go to OUT.
set -uo pipefail
dist=$1
out=${2:-.}
export GRADMILL_GOLDENS=${GRADMILL_GOLDENS:-$(dirname "$0")/../tests/goldens}
status=0
for test in ops_test models_test cuda_test train_test; do
  "$dist/tests/$test" --gtest_filter='*cuda*' >"$out/$test.txt" 2>&1 || status=1
  echo "$test: $(grep -E '^\[  PASSED' "$out/$test.txt")"
  grep -E '^\[  FAILED' "$out/$test.txt" | sort -u | head -20
done
exit $status
