#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the work of each kernel in a training step with the record tests/paper_gpu/budgets.txt.

    tools/kernel_budgets.py build-paper/tests/paper_gpu/gradmill_on_paper           # compares
    tools/kernel_budgets.py build-paper/tests/paper_gpu/gradmill_on_paper --write   # writes the record

Steps of the models below run on paper GPUs, which execute a sample of each launch's blocks and count their work. A kernel may
not do more than its record says: a change that makes one slower must update the record, so that reviewers see it. Nor may it
do much less, because a later change could lose the gain unnoticed. The numbers of a kernel are sums over its launches of
different sizes: instructions of warps, sectors of global memory, cycles lost to shared-memory conflicts, bytes copied
asynchronously, and FLOPs of matrix units. They depend on the compiler, which the record names: with another one nothing is
compared, and the exit status is 77."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RECORD = pathlib.Path(__file__).parent.parent / "tests" / "paper_gpu" / "budgets.txt"
NUMBERS = {
    "instructions": "warp_instructions",
    "sectors": "global_sectors",
    "conflicts": "conflicts",
    "copied": "copied_bytes",
    "flops": "matrix_flops",
}
# The sample of a changed kernel may contain other blocks, whose numbers differ slightly.
SLACK = 0.01
GAIN = 0.03
SKIPPED = 77
# The GPUs and their runs: real widths and lengths, but few layers and sequences.
STEPS = [
    ("h200", "--case 176m model.layers=2 training.batch_size=2 --vocab 4096"),
    ("h200", "--case 176m model.layers=2 training.batch_size=2 --vocab 4096 machine.save_policy=cheap"),
    ("h200", "--case 176m model.layers=2 training.batch_size=1 --vocab 4096 machine.dtype=tf32 machine.save_policy=block "
             "optimizer.ema_decay=0.99"),
    ("h200", "--case gpt2-124m model.layers=2 training.batch_size=2 --vocab 4096"),
    ("h200", "--case gpt2-124m model.layers=2 training.batch_size=2 --vocab 4096 machine.dtype=fp16 compile.mode=off "
             "optimizer.fused=false"),
    ("h200", "--case char-gpu model.layers=2"),
    ("h200", "machine.device=cuda data.task=classify data.path=- data.labels=a,b data.tokenizer=byte model.style=bert model.context=512 "
             "model.layers=2 model.width=768 model.heads=12 training.batch_size=4"),
    ("a100", "--case 176m model.layers=2 training.batch_size=1 --vocab 4096 attention.backend=flash"),
    ("a100", "--case char-gpu model.layers=2"),
]


def compiler_here():
    """The version of nvcc on the PATH."""
    try:
        said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        sys.exit("nvcc is not on the PATH: say with --nvcc which version compiled the program")
    return re.search(r", V([\d.]+)", said)[1]


def run_step(program, gpu, step):
    """One line of PAPER_COUNTS per sampled launch."""
    with tempfile.TemporaryDirectory() as folder:
        counts = pathlib.Path(folder) / "counts"
        settings = {"PAPER_GPU": gpu, "PAPER_TIME": "model", "PAPER_GPU_COMPUTES": "off", "PAPER_COUNTS": str(counts)}
        environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
        words = [program, "bench", "step", "--steps", "1", *step.split()]
        done = subprocess.run(words, env=environment | settings, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return [json.loads(line) for line in counts.read_text(encoding="utf-8").splitlines()]


def budgets_of(launches):
    """The numbers of each (GPU, kernel). Launches of the same size count once, as the largest of them."""
    largest = collections.defaultdict(lambda: collections.defaultdict(lambda: dict.fromkeys(NUMBERS, 0)))
    for launch in launches:
        blocks = launch["grid"][0] * launch["grid"][1] * launch["grid"][2]
        size = (blocks, launch["threads"], launch["shared_bytes"])
        numbers = largest[launch["gpu"], launch["kernel"]][size]
        for name, key in NUMBERS.items():
            numbers[name] = max(numbers[name], round(launch[key] * blocks / max(1, launch["blocks_run"])))
    return {kernel: {"launches": len(sizes)} | {name: sum(one[name] for one in sizes.values()) for name in NUMBERS}
            for kernel, sizes in largest.items()}


def measure(program):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda run: run_step(program, *run), STEPS))
    return budgets_of([launch for part in parts for launch in part])


def write_record(compiler, budgets):
    with open(RECORD, "w", encoding="utf-8") as record:
        record.write(f"# nvcc {compiler}: what kernels do, as tools/kernel_budgets.py counts and writes it.\n")
        for (gpu, kernel), numbers in sorted(budgets.items()):
            record.write(f"{gpu} {kernel}: " + " ".join(f"{name}={value}" for name, value in numbers.items()) + "\n")
    print(f"{RECORD}: {len(budgets)} kernels")


def read_record():
    lines = RECORD.read_text(encoding="utf-8").splitlines()
    compiler = re.match(r"# nvcc ([\d.]+):", lines[0])[1]
    budgets = {}
    for line in lines[1:]:
        kernel, numbers = line.rsplit(": ", 1)
        values = {name: int(value) for name, value in (word.split("=") for word in numbers.split())}
        budgets[tuple(kernel.split(" ", 1))] = values
    return compiler, budgets


def differences(recorded, counted):
    for key in sorted(recorded.keys() | counted.keys()):
        name = f"{key[1]} on {key[0]}"
        if key not in recorded:
            yield f"{name} is not in the record"
        elif key not in counted:
            yield f"{name} is in the record, but no step launches it"
        else:
            for number, before in recorded[key].items():
                now = counted[key][number]
                change = f"{name}: {number} from {before:,} to {now:,}"
                if now > before * (1 + SLACK):
                    yield "more: " + change
                elif now < before * (1 - GAIN):
                    yield "less, record the gain: " + change


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="gradmill_on_paper")
    parser.add_argument("--write", action="store_true", help="write the record anew")
    parser.add_argument("--nvcc", metavar="VERSION", help="the version that compiled it (default: that on the PATH)")
    args = parser.parse_args()
    compiler = args.nvcc or compiler_here()
    if args.write:
        return write_record(compiler, measure(args.program))
    recorded_compiler, recorded = read_record()
    if compiler != recorded_compiler:
        print(f"SKIPPED: budgets are recorded for nvcc {recorded_compiler}, and this is {compiler}")
        sys.exit(SKIPPED)
    counted = measure(args.program)
    found = list(differences(recorded, counted))
    for line in found:
        print(line)
    if found:
        sys.exit(f"If this is what was wanted, write the record anew: tools/kernel_budgets.py {args.program} --write")
    print(f"{len(counted)} kernels need what is recorded")


if __name__ == "__main__":
    main()
