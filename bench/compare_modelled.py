#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modelled times beside measured ones: how well the paper GPU's cost model fits.

    gradmill bench ops --case 176m > measured/176m.txt                       # on the GPU
    gradmill bench ops --case 176m --on-paper h200 > modelled/176m.txt       # anywhere
    bench/compare_modelled.py modelled measured

Each folder has one output of `gradmill bench ops` for each case, under the same names. Prints Markdown: a row for each
whole step, then the ops that are furthest off."""
import argparse
import dataclasses
import pathlib
import re
import statistics
import sys


@dataclasses.dataclass
class Bench:
    step_ms: float
    calls: dict  # by op
    us: dict     # of a call, by op


def read(path):
    text = path.read_text(encoding="utf-8")
    step = re.search(r"a whole step ([\d.]+) ms", text)
    if step is None:
        sys.exit(f"{path} is not an output of `gradmill bench ops`: it has no time of a whole step")
    bench = Bench(float(step[1]), {}, {})
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) > 3 and re.fullmatch(r"[\d.]+", cells[2]):
            bench.calls[cells[0]], bench.us[cells[0]] = float(cells[1]), float(cells[2])
    return bench


def percent(ratio):
    return f"{(ratio - 1) * 100:+.0f}%"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modelled", type=pathlib.Path)
    parser.add_argument("measured", type=pathlib.Path)
    parser.add_argument("--worst", type=int, default=15, help="ops listed, those furthest off first (default: 15)")
    args = parser.parse_args()
    ops = []
    print("| case | measured, ms | modelled, ms | off | ops | half of them off by less than |\n|---|---:|---:|---:|---:|---:|")
    for path in sorted(args.measured.glob("*.txt")):
        other = args.modelled / path.name
        if not other.is_file():
            sys.exit(f"there is no {other} beside {path}")
        measured, modelled = read(path), read(other)
        both = sorted(measured.us.keys() & modelled.us.keys())
        alone = sorted(measured.us.keys() ^ modelled.us.keys())
        if not both:
            sys.exit(f"{path} and {other} have no op in common")
        here = [(modelled.us[op] / measured.us[op], path.stem, op, measured.us[op], modelled.us[op]) for op in both]
        ops += here
        half = statistics.median(abs(ratio - 1) for ratio, *_ in here)
        print(f"| {path.stem} | {measured.step_ms:.2f} | {modelled.step_ms:.2f} | "
              f"{percent(modelled.step_ms / measured.step_ms)} | {len(here)} | {half * 100:.0f}% |")
        for op in alone:
            print(f"{path.stem}: {op} is in one of the two alone", file=sys.stderr)
    if not ops:
        sys.exit(f"{args.measured} has no .txt")
    half = statistics.median(abs(ratio - 1) for ratio, *_ in ops)
    print(f"\nHalf of all {len(ops)} ops are off by less than {half * 100:.0f}%.\n")
    print("| case | op | measured, us | modelled, us | off |\n|---|---|---:|---:|---:|")
    for ratio, case, op, measured, modelled in sorted(ops, key=lambda row: -abs(row[0] - 1))[:args.worst]:
        print(f"| {case} | {op} | {measured:.1f} | {modelled:.1f} | {percent(ratio)} |")


if __name__ == "__main__":
    main()
