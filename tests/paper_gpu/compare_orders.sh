#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compare_orders.sh OPS_TEST_ON_PAPER FILTER: what these tests write is the same with the work of a GPU in another order,
# and is compared as it is with hardware.
set -euo pipefail
tool=$(dirname "$0")/../../tools/compare_dumps.py
dumps=$(mktemp -d)
trap 'rm -rf "$dumps"' EXIT
GRADMILL_TEST_DUMP=$dumps/ascending "$1" --gtest_filter="$2" --gtest_brief=1
PAPER_ORDER=shuffled PAPER_ARRIVAL=shuffled GRADMILL_TEST_DUMP=$dumps/shuffled "$1" --gtest_filter="$2" --gtest_brief=1
python3 "$tool" "$dumps/shuffled" "$dumps/ascending"
