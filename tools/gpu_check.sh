#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_check.sh FOLDER [OUT]: runs the GPU tests in FOLDER/tests (a build folder, or one made by `make dist TESTS=on`) and
# prints one line per test; logs go to OUT. SANITIZE=on runs the ops under compute-sanitizer instead: memcheck, and racecheck and initcheck on
# our own kernels, all at the same time.
# With FOLDER/paper (tools/make_dist.sh PAPER=...) the op tests also run on the paper GPU, on all cores, and their dumps
# are compared: tools/compare_dumps.py. COMPARE=only does nothing else. LONG=off skips the tests of large shapes, which
# take minutes each on the paper GPU; FILTER=... is a GoogleTest filter. PAPER_GPU names the GPU if its compute
# capability is ambiguous.
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

# The paper GPU of this compute capability.
paper_gpu() {
  case $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1) in
    7.5) echo t4 ;;
    8.0) echo a100 ;;
    8.6) echo rtx3090 ;;
    8.9) echo rtx4080 ;;
    9.0) echo h200 ;;
    10.0) echo b200 ;;
    12.0) echo rtx5090 ;;
    *) echo "there is no paper GPU like this one: set PAPER_GPU" >&2; return 1 ;;
  esac
}

# Runs the op tests on hardware and on the paper GPU, and compares them.
compare() {
  local filter=${FILTER:-*cuda*} cores dumps="$out/dumps" code=0
  if [ "${LONG:-on}" = off ]; then
    filter="$filter$([[ $filter == *-* ]] && echo : || echo -)*Large*"
    echo "compared without tests of large shapes (LONG=off)"
  fi
  export PAPER_GPU=${PAPER_GPU:-$(paper_gpu)} PAPER_CHECKS=${PAPER_CHECKS:-off}
  [ -n "$PAPER_GPU" ] || return 1
  cores=$(nproc)
  rm -rf "$dumps" && mkdir -p "$dumps/hardware" "$dumps/paper" || return 1
  GRADMILL_TEST_DUMP="$dumps/hardware/ops" "$folder/tests/ops_test" --gtest_filter="$filter" --gtest_brief=1 \
    >"$out/compared_on_hardware.txt" 2>&1 || code=1
  summary "ops_test, compared" "$out/compared_on_hardware.txt"
  # Several parts for each core, since some tests are long. A part stays on one core: tests compute on the CPU with as
  # many threads as they may use cores.
  export GTEST_TOTAL_SHARDS=$((cores * 6)) dumps folder filter
  seq 0 $((GTEST_TOTAL_SHARDS - 1)) | LD_LIBRARY_PATH="$folder/paper:$folder/lib" xargs -P "$cores" --process-slot-var=core -I{} sh -c '
    GTEST_SHARD_INDEX={} GRADMILL_TEST_DUMP="$dumps/paper/part{}" taskset -c "$core" "$folder/paper/ops_test_on_paper" \
      --gtest_filter="$filter" --gtest_brief=1; code=$?
    # 1: a test failed, or nothing was launched in this part.
    [ $code -le 1 ] || echo "part {} on paper ended with status $code"' >"$out/compared_on_paper.txt" 2>&1
  unset GTEST_TOTAL_SHARDS
  grep -E '^part [0-9]+ on paper|^\[  FAILED  \] .*\(' "$out/compared_on_paper.txt" && code=1
  python3 "$(dirname "$0")/compare_dumps.py" "$dumps/hardware" "$dumps/paper" | tee "$out/compared.txt"
  [ "${PIPESTATUS[0]}" = 0 ] && return $code
}

if [ "${COMPARE:-on}" = only ]; then
  compare
  exit
fi

for test in ops_test models_test cuda_test session_test train_test; do check $test $test; done
# Tests the kernels for other GPUs that this one can run.
for capability in 75 80 86; do GRADMILL_TEST_CAPABILITY=$capability check ops_test_as_$capability ops_test; done
if [ -e "$folder/paper/ops_test_on_paper" ]; then compare || status=1; fi
exit $status
