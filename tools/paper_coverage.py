#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports which kernels, and which of their instantiations, the tests on a paper GPU have executed.

    PAPER_COVERAGE=coverage.txt make test-paper-all
    tools/paper_coverage.py coverage.txt [--missing]

Prints one line per kernel with instantiations that were not executed; --missing also names these. Exit status 1 if a
kernel was never executed at all."""
import argparse
import collections
import re
import subprocess
import sys


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, text.splitlines()))


def kernel_of(name):
    """The name without namespaces, template arguments and parameters."""
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    name = re.sub(r"^void ", "", name)
    return re.split(r"[<(]", name)[0].removeprefix("gradmill::")


def without_file(name):
    """A mangled name without the source file and the build, which nvcc puts into the names of anonymous namespaces."""
    while found := re.search(r"(\d+)_GLOBAL__N__", name):
        begin, length = found.end(1), int(found[1])
        name = name[:found.start()] + "12_GLOBAL__N_1" + name[begin + length:]
    return name


def read(paths):
    there, ran = collections.defaultdict(set), set()
    for path in paths:
        for line in open(path, encoding="utf-8"):
            gpu, what, name = line.split()
            name = without_file(name)
            there[name].add(gpu)
            if what == "ran":
                ran.add(name)
    return there, ran


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="what PAPER_COVERAGE named")
    parser.add_argument("--missing", action="store_true", help="name the instantiations that were not executed")
    args = parser.parse_args()
    there, ran = read(args.files)
    names = demangled(sorted(there))
    by_kernel = collections.defaultdict(list)
    for mangled, name in names.items():
        by_kernel[kernel_of(name)].append((name, mangled in ran))
    never = 0
    print("| kernel | instantiations | executed |\n|---|---:|---:|")
    for kernel, instances in sorted(by_kernel.items()):
        executed = sum(done for _, done in instances)
        if executed == len(instances):
            continue
        never += executed == 0
        print(f"| {kernel} | {len(instances)} | {executed} |")
        for name, done in sorted(instances) if args.missing else []:
            if not done:
                print(f"|   {name.replace('|', '')} | | |")
    total, executed = len(names), sum(name in ran for name in names)
    print(f"\n{len(by_kernel)} kernels, {never} never executed; {total} instantiations, {total - executed} never executed")
    sys.exit(never > 0)


if __name__ == "__main__":
    main()
