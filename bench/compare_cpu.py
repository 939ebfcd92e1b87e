#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradmill against PyTorch on this CPU: whole training steps, alternately, printed as a Markdown table.

Each round runs every contender once, in its own process, one after the other, so that a machine that slows down or
speeds up during the comparison does so for all of them. The ratio is ours against the faster of PyTorch's modes, taken
within each round; a cell is the median over the rounds, with the smallest and largest in brackets.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / "bench" / "peers" / "torch_char.py"
CASES = ["nano", "char"]
MODES = ["eager", "compile"]


def run_json(command, environment=None):
    """Runs the command and returns the last line of its output that is a JSON object."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or not lines:
        sys.exit(f"failed ({result.returncode}): {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return json.loads(lines[-1])


def contenders(arguments, case):
    """Name and command of each run of a round."""
    common = ["--case", case, "--threads", str(arguments.threads)]
    if arguments.steps:
        common += ["--steps", str(arguments.steps)]
    yield "ours", [str(arguments.binary), "bench", "step", *common]
    for mode in MODES:
        yield mode, [arguments.python, str(PEER), "--mode", mode, *common]


def measure(arguments, cases):
    """Tokens per second of each round: {(case, contender): [..]}, and the peer's version."""
    speeds, version = defaultdict(list), ""
    # The peer is compared on the CPU even where it could use a GPU.
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    for number in range(arguments.rounds):
        for case in cases:
            for name, command in contenders(arguments, case):
                result = run_json(command, environment)
                if result["case"] != case or result["threads"] != arguments.threads:
                    sys.exit(f"asked for {case} on {arguments.threads} threads, got {result}: {' '.join(command)}")
                speeds[case, name].append(result["tokens_per_s"])
                version = result.get("torch", version)
                print(f"round {number + 1} {case} {name}: {result['tokens_per_s']:.0f} tokens/s, "
                      f"{result['step_ms']:.2f} ms", file=sys.stderr, flush=True)
    return speeds, version


def with_spread(values, form):
    return f"{statistics.median(values):{form}} [{min(values):{form}}, {max(values):{form}}]"


def cpu_name():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def print_table(arguments, cases, speeds, version):
    print(f"{cpu_name()}, {arguments.threads} threads, PyTorch {version}, {arguments.rounds} rounds; tokens/s, "
          "median [min, max]\n")
    print("| case | gradmill | PyTorch eager | PyTorch compiled | gradmill / faster PyTorch |")
    print("|---|---:|---:|---:|---:|")
    for case in cases:
        rounds = {name: speeds[case, name] for name in ["ours", *MODES]}
        ratios = [ours / max(peers) for ours, *peers in zip(*rounds.values())]
        cells = [with_spread(values, ",.0f") for values in rounds.values()]
        print(f"| {case} | {' | '.join(cells)} | {with_spread(ratios, '.2f')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "build" / "gradmill")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--case", choices=[*CASES, "all"], default="all")
    parser.add_argument("--steps", type=int, help="timed steps of every run (default: each program's own choice)")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    load = os.getloadavg()[0]
    if load > 0.3:
        print(f"warning: the machine is busy (load {load:.1f}); the numbers will not hold", file=sys.stderr)
    cases = CASES if arguments.case == "all" else [arguments.case]
    print_table(arguments, cases, *measure(arguments, cases))


if __name__ == "__main__":
    main()
