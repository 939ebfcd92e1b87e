#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradmill against PyTorch on one GPU: whole training steps of the same models, printed as Markdown tables.

For each row our run and its twin alternate (ours, twin, ours; once more for each further mode of torch.compile), every
run in its own process, so that memory is clean and a GPU that slows down does so for both. Every run is one line of
FOLDER/results.jsonl as soon as it ends; --report prints the tables of such files again. Failed runs are shown.
"""
import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpu_report import print_report
from peers.gpu_rows import ROWS

ROOT = Path(__file__).resolve().parent.parent
TWIN = ROOT / "bench" / "peers" / "torch_twin.py"
FLOOR = "floor"
LEAST_SECONDS = 10  # less time than this is not worth starting a run


class RunFailed(Exception):
    pass


def run_to_end(command, timeout, environment):
    """Exit status and output of the command. Whatever it started ends with it, also when this script is stopped."""
    with tempfile.TemporaryFile("w+") as output:
        try:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment,
                                       process_group=0)
        except OSError as error:
            raise RunFailed(f"cannot run {command[0]}: {error.strerror}") from error
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return process.returncode, output.read()


def run_lines(command, timeout, environment=None):
    """The JSON objects that the command prints, one a line. Raises RunFailed with the end of what it said."""
    start = time.time()
    status, output = run_to_end(command, timeout, environment)
    said = output.strip()[-3000:]
    if status != 0:
        reason = f"stopped after {timeout:.0f} s" if time.time() - start >= timeout else f"exit status {status}"
        raise RunFailed(f"{reason}: {said}")
    try:
        objects = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    except ValueError as error:
        raise RunFailed(f"{error} in: {said}") from error
    if not objects:
        raise RunFailed(f"no result in: {said}")
    return objects


class Comparison:
    """Runs what was asked for and keeps a record of each run."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.started = time.time()
        self.records = []
        arguments.out.mkdir(parents=True, exist_ok=True)

    def keep(self, record):
        record = {"run": round(self.started)} | record
        self.records.append(record)
        with open(self.arguments.out / "results.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        return record

    def timeout(self):
        left = self.started + self.arguments.time_limit - time.time()
        if left < LEAST_SECONDS:
            raise RunFailed(f"not started: the {self.arguments.time_limit:.0f} s of --time-limit are over")
        return min(left, self.arguments.run_limit)

    def attempt(self, labels, command, expected, environment=None):
        """Runs the command and records its result, or why there is none; the result must be of what was asked for."""
        start = time.time()
        try:
            result = run_lines(command, self.timeout(), environment)[-1]
            if "tokens_per_s" not in result or not expected.items() <= result.items():
                raise RunFailed(f"expected {expected} and tokens_per_s, got {result}")
        except RunFailed as error:
            result = {"error": str(error)}
        record = self.keep(labels | {"command": shlex.join(command), "wall_s": round(time.time() - start, 1)} | result)
        said = record.get("error") or f"{record['tokens_per_s']:,.0f} tokens/s, {record['step_ms']:.2f} ms"
        print(f"{labels['row']} {labels['who']} {labels.get('mode', '')}: {said} ({record['wall_s']} s)",
              file=sys.stderr, flush=True)

    def run_ours(self, name):
        row = ROWS[name]
        command = [str(self.arguments.binary), "bench", "step", "--case", row.case, "--steps",
                   str(self.arguments.steps or row.steps), *row.overrides, *self.arguments.set]
        self.attempt({"row": name, "who": "ours"}, command, {"case": row.case})

    def run_twin(self, name, mode):
        arguments = self.arguments
        command = [arguments.python, str(TWIN), "--row", name, "--mode", mode, "--budget", str(arguments.budget),
                   "--attention", arguments.attention, "--residual", arguments.residual]
        command += ["--steps", str(arguments.steps)] if arguments.steps else []
        command += [flag for flag in ("--profile", "--smoke") if getattr(arguments, flag[2:])]
        # An empty cache: the twin's first step is what someone waits for who runs this model for the first time.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as fresh:
            cache = (arguments.compile_cache or Path(fresh)).resolve()
            environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
                                        "TRITON_CACHE_DIR": str(cache / "triton")}
            labels = {"row": name, "who": "twin", "mode": mode, "cold_cache": not arguments.compile_cache}
            self.attempt(labels, command, {"row": name}, environment)

    def compare(self, name):
        modes = self.arguments.modes or ROWS[name].modes
        if self.arguments.only != "twin":
            self.run_ours(name)
        for mode in modes:
            if self.arguments.only != "ours":
                self.run_twin(name, mode)
            if self.arguments.only != "twin":
                self.run_ours(name)

    def run_floor(self):
        """What a step costs as the sum of its parts; one record for each model, batch and precision."""
        if self.arguments.op_floor is None:
            print("floor: skipped, no --op-floor", file=sys.stderr)
            return
        command = [self.arguments.python, str(self.arguments.op_floor)]
        try:
            for line in run_lines(command, self.timeout()):
                self.keep({"row": FLOOR, "who": FLOOR} | line)
        except RunFailed as error:
            self.keep({"row": FLOOR, "who": FLOOR, "error": str(error)})
            print(f"floor: {error}", file=sys.stderr, flush=True)


def read_records(files):
    """The records of earlier comparisons; of a row that was compared again, the newest comparison alone."""
    records = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    newest = {}
    for record in records:
        newest[record["row"]] = max(newest.get(record["row"], 0), record["run"])
    return [record for record in records if record["run"] == newest[record["row"]]]


def split_names(text):
    return [name for name in text.split(",") if name]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "build" / "gradmill")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch")
    parser.add_argument("--rows", type=split_names, default=[*ROWS, FLOOR], metavar="A,B",
                        help=f"of {','.join([*ROWS, FLOOR])} (default: all)")
    parser.add_argument("--modes", type=split_names, metavar="A,B",
                        help="of torch.compile, or eager (default: the row's own)")
    parser.add_argument("--out", type=Path, default=Path("runs/compare_gpu"), metavar="FOLDER")
    parser.add_argument("--only", choices=["ours", "twin"], help="run one side alone")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a further setting of our runs")
    parser.add_argument("--steps", type=int, help="timed steps of every run (default: the row's own)")
    parser.add_argument("--budget", type=float, default=15, help="seconds for a twin's timed steps")
    parser.add_argument("--run-limit", type=float, default=240, help="seconds after which one run is stopped")
    parser.add_argument("--time-limit", type=float, default=86400, help="seconds after which no run is started or kept")
    parser.add_argument("--attention", choices=["both", "cudnn", "flash"], default="both", help="the twin's kernels")
    parser.add_argument("--residual", choices=["float32", "bfloat16"], default="float32",
                        help="type of the twin's residual stream; float32 is what autocast makes of it")
    parser.add_argument("--compile-cache", type=Path, metavar="FOLDER",
                        help="keep the twin's compiled code here (default: an empty cache for each run)")
    parser.add_argument("--op-floor", type=Path, metavar="FILE", help="the script of the row `floor`")
    parser.add_argument("--profile", action="store_true", help="record the twin's kernels too")
    parser.add_argument("--smoke", action="store_true", help="shrunk twins on the CPU: to check this script")
    parser.add_argument("--report", type=Path, nargs="+", metavar="FILE", help="run nothing: print these results")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.rows if name not in (*ROWS, FLOOR)]
    if unknown:
        parser.error(f"unknown row {unknown[0]}: choose of {', '.join([*ROWS, FLOOR])}")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.report:
        print_report(read_records(arguments.report))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    comparison = Comparison(arguments)
    try:
        for name in arguments.rows:
            if name == FLOOR:
                comparison.run_floor()
            else:
                comparison.compare(name)
    finally:
        print_report(comparison.records)
    if any("error" in record for record in comparison.records):
        sys.exit(1)


if __name__ == "__main__":
    main()
