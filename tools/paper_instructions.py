#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every PTX instruction of our kernels is covered by a test of the paper GPU's instructions.

    tools/paper_instructions.py build-paper/tests/paper_gpu/ptx_test build-paper/tests/paper_gpu/gradmill_on_paper

Runs the first program, which compares each instruction with a reference, and reads the PTX that it ran. The other
programs are searched for the PTX in them. Instructions are compared by their spelling, with all modifiers. Exit status 1
if there are instructions without a test; they are listed with their number of occurrences per GPU generation.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MODULE = re.compile(rb"\.version [0-9.]+\s+\.target sm_(\w+)")
COMMENT = re.compile(r"//[^\n]*|^\s*\.(?:loc|file|section)[^\n]*$", re.MULTILINE)
STATEMENT = re.compile(r"(?:[$\w]+:\s*)?(?:@!?%?\w+\s+)?([a-z][a-z0-9]*(?:\.[\w:]+)*)(?=[\s;]|$)")


def instructions(text):
    """How often each instruction occurs in a PTX text."""
    counts = collections.Counter()
    for statement in re.split(r"[;{}]", COMMENT.sub("", text)):
        # Labels are on lines of their own.
        found = STATEMENT.match(re.sub(r"^\s*(?:[$\w]+:\s*)*", "", statement))
        if found:
            counts[found[1]] += 1
    return counts


def modules(program):
    """The generation and the text of each PTX module in a program that was built with --no-compress."""
    data = program.read_bytes()
    for found in MODULE.finditer(data):
        yield found[1].decode(), data[found.start():data.index(b"\0", found.start())].decode(errors="replace")


def tested(test):
    """The instructions of the test's kernels."""
    with tempfile.TemporaryDirectory() as folder:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GTEST_")}
        done = subprocess.run([test, "--gtest_brief=1"], env=env | {"GRADMILL_PTX_DUMP": folder}, text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{test} fails:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        names = set()
        for path in pathlib.Path(folder).glob("*.ptx"):
            names |= instructions(path.read_text()).keys()
        return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test", help="ptx_test")
    parser.add_argument("programs", nargs="+", type=pathlib.Path, help="programs with kernels")
    args = parser.parse_args()
    names = tested(args.test)
    used = collections.defaultdict(collections.Counter)
    for program in args.programs:
        for generation, text in modules(program):
            for name, count in instructions(text).items():
                used[name][generation] += count
    if not used:
        sys.exit(f"there is no PTX in {', '.join(map(str, args.programs))}: they must be built with --no-compress")
    missing = sorted(used.keys() - names)
    for name in missing:
        print(f"{name}: in no test; " + ", ".join(f"{count} times in code for {generation}"
                                                  for generation, count in sorted(used[name].items())))
    print(f"{len(used)} instructions in our kernels, {len(missing)} of them in no test")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
