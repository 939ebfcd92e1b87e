#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records how many registers the compiler gives each kernel, for the paper GPU's occupancy (docs/paper-gpu.md).

    cmake --preset cuda && cmake --build build-cuda
    tools/kernel_registers.py build-cuda/gradmill

writes tests/paper_gpu/registers.txt: one line per kernel with its compute capability and registers per thread. Any file
with machine code works: a program, a library or objects. CUDA's cuobjdump must be on the PATH, or be given by --cuobjdump."""
import argparse
import pathlib
import re
import subprocess

from check_launches import read_resources

RECORD = pathlib.Path(__file__).parent.parent / "tests" / "paper_gpu" / "registers.txt"


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, text.splitlines()))


def instance_name(name):
    """The same form as in tests/paper_gpu/kernel_names.cpp."""
    for part in ("void ", "(anonymous namespace)::", "gradmill::"):
        name = name.replace(part, "")
    depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            return name[:at]
    return name


def compiler_of(path):
    found = re.search(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)", pathlib.Path(path).read_bytes())
    return found[1].decode() if found else "of an unknown version"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("compiled", nargs="+")
    parser.add_argument("--cuobjdump", default="cuobjdump")
    args = parser.parse_args()
    resources = read_resources(args.cuobjdump, args.compiled, name=str)
    names = demangled(sorted({kernel for _, kernel in resources}))
    lines = set()
    for (code, kernel), (registers, _) in resources.items():
        capability = re.sub(r"\D", "", code)
        lines.add((instance_name(names[kernel]), int(capability), registers))
    version = compiler_of(args.compiled[0])
    with open(RECORD, "w", encoding="utf-8") as record:
        record.write(f"# Registers of each kernel as CUDA {version} compiles it: compute capability, registers, kernel.\n")
        record.write("# Written by tools/kernel_registers.py.\n")
        for kernel, capability, registers in sorted(lines):
            record.write(f"{capability} {registers} {kernel}\n")
    print(f"{RECORD}: {len(lines)} kernels")


if __name__ == "__main__":
    main()
