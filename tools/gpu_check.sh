#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_check.sh FOLDER [OUT]: the GPU tests of FOLDER/tests (a build folder, or one made by `make dist TESTS=on`), a line
# each; logs go to OUT. SANITIZE=on runs the ops under compute-sanitizer instead: memcheck, and racecheck and initcheck on
# our own kernels, all at the same time.
set -uo pipefail
folder=$1
out=${2:-.}
export GRADMILL_GOLDENS=${GRADMILL_GOLDENS:-$(dirname "$0")/../tests/goldens}
status=0

summary() { echo "$1: $(grep -E '^\[  PASSED|ERROR SUMMARY|RACECHECK SUMMARY' "$2" | tail -2 | tr '\n' ' ')"; }

sanitize() {  # tool, gtest filter, further options
  local log="$out/$1.txt" tool=$1 filter=$2
  shift 2
  compute-sanitizer --tool "$tool" --error-exitcode 1 "$@" "$folder/tests/ops_test" --gtest_filter="$filter" >"$log" 2>&1
  local code=$?
  summary "$tool" "$log"
  return $code
}

if [ "${SANITIZE:-off}" = on ]; then
  # The rest repeats the same kernels hundreds of times.
  filter='*cuda*-*CentralDifferences*:*BitsDoNotDepend*:*LargeVocab*'
  libraries=(--kernel-name-exclude kernel_substring=cudnn --kernel-name-exclude kernel_substring=nvjet
    --kernel-name-exclude kernel_substring=cutlass --kernel-name-exclude kernel_substring=cublas)
  sanitize memcheck "$filter" & jobs=($!)
  sanitize racecheck "$filter" "${libraries[@]}" & jobs+=($!)
  sanitize initcheck "$filter" "${libraries[@]}" & jobs+=($!)
  for job in "${jobs[@]}"; do wait "$job" || status=1; done
  exit $status
fi

check() {  # name of the log, test
  "$folder/tests/$2" --gtest_filter='*cuda*' >"$out/$1.txt" 2>&1 || status=1
  summary "$1" "$out/$1.txt"
  grep -E '^\[  FAILED' "$out/$1.txt" | sort -u | head -20
}

for test in ops_test models_test cuda_test train_test; do check $test $test; done
# What other GPUs run, as far as this one can.
for capability in 75 80 86; do GRADMILL_TEST_CAPABILITY=$capability check ops_test_as_$capability ops_test; done
exit $status
