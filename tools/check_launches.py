#!/usr/bin/env python3
"""Checks that kernels fit the GPUs they are launched on: registers, and shared memory including static declarations.

The launches come from tests on the paper GPU, and the resources of a kernel from the compiled code:

    cmake --preset cuda-all && cmake --build build-cuda-all --target paper_tests
    for gpu in t4 a100 rtx3090 h200 rtx5090; do for test in ops models nn train adapters; do
      PAPER_GPU=$gpu PAPER_GPU_COMPUTES=off PAPER_LAUNCHES=launches.txt build-cuda-all/tests/paper_gpu/${test}_test_on_paper --gtest_filter='*cuda*'
    done; done
    tools/check_launches.py launches.txt build-cuda-all/gradmill

More files with code for further GPUs, such as object files, may be given. CUDA's cuobjdump must be on the PATH, or be given by --cuobjdump.
"""
import argparse
import re
import subprocess
import sys

# By the name in tests/paper_gpu: the code that the GPU runs, and the limit of shared memory per block in KiB.
GPUS = {
    "t4": ("sm_75", 64),
    "a100": ("sm_80", 163),
    "rtx3090": ("sm_86", 99),
    "rtx4080": ("sm_89", 99),
    "h200": ("sm_90a", 227),
    "b200": ("sm_100a", 227),
    "rtx5090": ("sm_120a", 99),
}
REGISTERS = 65536  # per multiprocessor
# From Ampere on the report includes one KiB for the system, which is not part of the block's memory.
SYSTEM_SHARED = 1024


def same_everywhere(name):
    """Names in unnamed namespaces contain a hash of the compilation."""
    return re.sub(r"\d+_GLOBAL__N__[0-9a-f]+_(\d+_\w+?_cu)_[0-9a-f]{8}(_\d+)?", r"unnamed_\1_", name)


def read_resources(cuobjdump, files, name=same_everywhere):
    """Registers and shared bytes by (code, kernel). `name` converts the compiler's name to the kernel's name."""
    resources = {}
    for path in files:
        report = subprocess.run([cuobjdump, "-res-usage", path], capture_output=True, text=True, check=True).stdout
        code = kernel = None
        for line in report.splitlines():
            if found := re.search(r"arch = (\w+)", line):
                code = found[1]
            elif found := re.search(r"Function (\S+):", line):
                kernel = name(found[1])
            elif kernel and (found := re.search(r"REG:(\d+).*SHARED:(\d+)", line)):
                shared = int(found[2])
                if code != "sm_75" and shared >= SYSTEM_SHARED:
                    shared -= SYSTEM_SHARED
                resources[code, kernel] = int(found[1]), shared
                kernel = None
    return resources


def faults_of(gpu, launches, resources):
    code, shared_kib = GPUS[gpu]
    for kernel, threads, asked in launches:
        if (code, kernel) not in resources:
            continue
        registers, declared = resources[code, kernel]
        warps = (threads + 31) // 32
        if (registers + 7) // 8 * 8 * 32 * warps > REGISTERS:
            yield f"{kernel}: {threads} threads of {registers} registers"
        if declared + asked > shared_kib * 1024:
            yield f"{kernel}: {declared} + {asked} bytes of shared memory"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("launches")
    parser.add_argument("compiled", nargs="+")
    parser.add_argument("--cuobjdump", default="cuobjdump")
    args = parser.parse_args()
    launches = {}
    with open(args.launches, encoding="utf-8") as lines:
        for line in lines:
            gpu, kernel, threads, asked = line.split()
            launches.setdefault(gpu, []).append((same_everywhere(kernel), int(threads), int(asked)))
    resources = read_resources(args.cuobjdump, args.compiled)
    bad = 0
    for gpu, launched in launches.items():
        kernels = {kernel for kernel, _, _ in launched}
        known = sum((GPUS[gpu][0], kernel) in resources for kernel in kernels)
        faults = sorted(set(faults_of(gpu, launched, resources)))
        bad += len(faults) + (known == 0)
        print(f"{gpu}: {len(kernels)} kernels, {known} of them in the code for {GPUS[gpu][0]}, {len(faults)} do not fit")
        for fault in faults:
            print("  " + fault)
    return 1 if bad or not launches else 0


if __name__ == "__main__":
    sys.exit(main())
