#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning steps of real shapes, ours beside transformers and PEFT on one GPU, printed as a Markdown table.

Eager peers run first, each alone and behind ours. Compiled ones take minutes to compile: they all do so at once, then
each is timed alone, and ours behind it. Every result is a line of OUT/results.jsonl as soon as it is there."""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peers.finetune_cases import CASES

PEER = Path(__file__).resolve().parent / "peers" / "hf_finetune.py"


class Failed(Exception):
    pass


class Peer:
    """A peer's process: it says when it is ready, and is timed when it is told to."""

    def __init__(self, name, mode):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, str(PEER), name, "--mode", mode], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)

    def line(self):
        for text in self.process.stdout:
            if text.startswith("{"):
                return json.loads(text)
        self.log.seek(0)
        raise Failed(self.log.read().strip()[-300:])

    def time(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        result = self.line()
        self.process.wait()
        return result


def our_settings(case, folder):
    settings = [f"model.path={folder}", "model.init=random", "data.tokenizer=byte", f"model.context={case.tokens}",
                f"training.batch_size={case.batch}", f"model.dropout={case.dropout}", *case.settings]
    settings.append("data.task=classify" if case.classifier else "data.packing=concatenated")
    if case.adapter:
        settings += [f"adapter.kind={case.adapter}", "adapter.rank=16", "adapter.alpha=32", "adapter.dropout=0"]
    return settings


def run_ours(binary, case, folder, timeout):
    command = [binary, "bench", "step", "--steps", "8", "machine.device=auto", "compile.mode=max-autotune", "data.path=x",
               *our_settings(case, folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise Failed((done.stderr + done.stdout).strip()[-300:])
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return {key: said[key] for key in ("step_ms", "memory_bytes", "driver_bytes")}


class Comparison:
    def __init__(self, arguments, scratch):
        self.arguments, self.scratch, self.results = arguments, Path(scratch), []
        self.out = Path(arguments.out)
        self.out.mkdir(parents=True, exist_ok=True)

    def note(self, **result):
        self.results.append(result)
        with open(self.out / "results.jsonl", "a") as file:
            file.write(json.dumps(result) + "\n")
        print(json.dumps(result), flush=True)

    def attempt(self, name, mode, run):
        try:
            self.note(case=name, mode=mode, **run())
        except (Failed, subprocess.TimeoutExpired, OSError) as error:
            self.note(case=name, mode=mode, error=str(error))

    def ours(self, name):
        folder = self.scratch / name
        if not folder.exists():
            CASES[name].config().save_pretrained(folder)
        self.attempt(name, "ours", lambda: run_ours(self.arguments.binary, CASES[name], folder, self.arguments.timeout))

    def eager(self, name):
        peer = Peer(name, "eager")
        self.attempt(name, "eager", lambda: (peer.line(), peer.time())[1])

    def compiled(self, names):
        peers = {name: Peer(name, "compiled") for name in names}
        for name, peer in list(peers.items()):
            try:
                peer.line()
            except Failed as error:
                self.note(case=name, mode="compiled", error=str(error))
                del peers[name]
        for name, peer in peers.items():
            self.attempt(name, "compiled", peer.time)
            self.ours(name)

    def run(self):
        chosen = self.arguments.cases.split(",") if self.arguments.cases else list(CASES)
        for name in chosen:
            if "eager" in CASES[name].modes:
                self.ours(name)
                self.eager(name)
        if not self.arguments.eager_only:
            self.compiled([name for name in chosen if "compiled" in CASES[name].modes])


def median(results, name, mode, key):
    values = [r[key] for r in results if r["case"] == name and r["mode"] == mode and key in r]
    return statistics.median(values) if values else None


def report(results):
    print("| case | batch x tokens | mode | peer ms | ours ms | ratio | goal | peer GiB | ours GiB | ratio |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, case in CASES.items():
        for mode in case.modes:
            ours, peer = median(results, name, "ours", "step_ms"), median(results, name, mode, "step_ms")
            if ours is None or peer is None:
                continue
            ours_gib = median(results, name, "ours", "memory_bytes") / 2**30
            peer_gib = median(results, name, mode, "memory_bytes") / 2**30
            print(f"| {name} | {case.batch} x {case.tokens} | {mode} | {peer:.1f} | {ours:.1f} | {peer / ours:.2f} | "
                  f"{case.must.get(mode, 0):.2f} | {peer_gib:.1f} | {ours_gib:.1f} | {ours_gib / peer_gib:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/gradmill")
    parser.add_argument("--cases", default="", help="names with commas between them; all: " + ",".join(CASES))
    parser.add_argument("--eager-only", action="store_true", help="without the compiled peers")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one run of ours")
    parser.add_argument("--out", default="runs/finetune")
    parser.add_argument("--report", nargs="+", help="only print the table of such results.jsonl files")
    arguments = parser.parse_args()
    if arguments.report:
        return report([json.loads(line) for path in arguments.report for line in open(path)])
    with tempfile.TemporaryDirectory() as scratch:
        comparison = Comparison(arguments, scratch)
        comparison.run()
    report(comparison.results)


if __name__ == "__main__":
    main()
