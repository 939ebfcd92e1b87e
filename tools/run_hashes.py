#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints hashes of short CPU runs, to show whether a code change affects results.

  tools/run_hashes.py build/gradmill > before.txt     # then change the code, and build
  tools/run_hashes.py build/gradmill | diff before.txt -

Every kind of run is covered: each task, style, data type and save policy, adapters on each kind of base, packed,
concatenated and streamed data. A line is the run's name, a hash of the losses in metrics.jsonl and one of every tensor
of the last checkpoint. The data is made here, so the lines depend on the binary and the CPU only.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

WORDS = [f"w{i}" for i in range(40)]
STEPS = 12
COMMON = [f"training.steps={STEPS}", "training.epochs=0", "machine.device=cpu", "machine.threads=1",
          "eval.every_steps=6",
          "checkpoint.every_steps=6", "schedule.warmup_steps=3", "sample.tokens=4", "logging.progress=off",
          "logging.every_steps=1", "logging.tensorboard=false"]
SMALL = ["model.layers=2", "model.width=32", "model.heads=4", "model.context=32", "training.batch_size=6"]
CHARS = SMALL + ["data.dataset={folder}/text.txt"]
TOKENS = SMALL + ["data.path={folder}/docs.jsonl", "data.tokenizer={folder}/tokenizer", "model.style=llama"]
CLASSES = SMALL + ["data.path={folder}/classes.tsv", "data.validation_path={folder}/classes.tsv",
                   "data.tokenizer={folder}/tokenizer"]
CHAT = ["model.path={folder}/base", "data.path={folder}/chat.jsonl", "data.validation_path={folder}/chat.jsonl",
        "data.task=instruct", "model.context=32", "training.batch_size=6"]
RUNS = {
    "gpt2": CHARS,
    "gpt2-dropout-cheap": CHARS + ["model.dropout=0.2", "machine.save_policy=cheap"],
    "gpt2-bf16-block": CHARS + ["machine.dtype=bf16", "machine.save_policy=block"],
    "gpt2-fp16": CHARS + ["machine.dtype=fp16"],
    "gpt2-micro-batches-average": CHARS + ["training.micro_batch_size=2", "optimizer.ema_decay=0.9"],
    "llama-packed": TOKENS,
    "llama-packed-bf16-cheap": TOKENS + ["machine.dtype=bf16", "machine.save_policy=cheap", "model.kv_heads=2"],
    "qwen2-concatenated": TOKENS + ["model.style=qwen2", "data.packing=concatenated"],
    "qwen3-streamed": TOKENS + ["model.style=qwen3", "data.streaming=true",
                                "data.validation_path={folder}/docs.jsonl"],
    "bert-masked": TOKENS + ["model.style=bert", "data.task=mask"],
    "bert-classes": CLASSES + ["task=classify", "model.style=bert"],
    "llama-classes-weights": CLASSES + ["task=classify", "model.style=llama", "data.class_weights=balanced"],
    "bert-numbers": CLASSES + ["task=regress", "model.style=bert", "data.label_column=score"],
    "instruct": CHAT,
    "instruct-lora": CHAT + ["adapter.kind=lora", "adapter.rank=4"],
    "instruct-dora-bf16": CHAT + ["adapter.kind=dora", "adapter.rank=4", "machine.dtype=bf16"],
    "instruct-lora-nf4": CHAT + ["adapter.kind=lora", "adapter.rank=4", "model.load_in=nf4"],
    "instruct-lora-int8": CHAT + ["adapter.kind=lora", "adapter.rank=4", "model.load_in=int8"],
}


def write_tokenizer(folder):
    """One token per word, with an encoder's special tokens."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab = {word: i for i, word in enumerate(special + WORDS + ["user", "assistant", ":"])}
    added = [{"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, word in enumerate(special)]
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": vocab}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "eos_token": "[SEP]", "pad_token": "[PAD]", "chat_template":
        "{% for message in messages %}{{ message['role'] + ' : ' + message['content'] + ' [SEP] ' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant : ' }}{% endif %}"}))


def write_data(folder):
    rng = random.Random(1)

    def words(most):
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, most)))

    (folder / "text.txt").write_text("".join(rng.choice("abcdefgh \n") for _ in range(20000)))
    (folder / "docs.jsonl").write_text("".join(json.dumps({"text": words(50)}) + "\n" for _ in range(300)))
    chats = ([{"role": "user", "content": words(9)}, {"role": "assistant", "content": words(9)}] for _ in range(80))
    (folder / "chat.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    rows = [f"{words(20)}\t{rng.choice(['no', 'yes', 'maybe'])}\t{rng.random():.3f}\n" for _ in range(120)]
    (folder / "classes.tsv").write_text("text\tlabel\tscore\n" + "".join(rows))
    write_tokenizer(folder / "tokenizer")


def train(binary, folder, name, settings):
    run = folder / name
    settings = [setting.format(folder=folder) for setting in COMMON + settings]
    done = subprocess.run([binary, "train", *settings, f"checkpoint.dir={run}"], capture_output=True, text=True,
                          cwd=folder, env=os.environ | {"XDG_CACHE_HOME": f"{folder}/cache"})
    if done.returncode != 0:
        sys.exit(f"{name} ends with status {done.returncode}:\n{done.stderr[-2000:]}")
    return run


def last_checkpoint(run):
    return max((run / "checkpoints").iterdir())


def hash_of_tensors(checkpoint):
    """Names, types, shapes and bytes of all tensors, independent of their order in the file."""
    digest = hashlib.sha256()
    for path in sorted(checkpoint.glob("*.safetensors")):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        header.pop("__metadata__", None)
        for name in sorted(header):
            begin, end = header[name]["data_offsets"]
            digest.update(f"{path.name} {name} {header[name]['dtype']} {header[name]['shape']}".encode())
            digest.update(data[8 + size + begin:8 + size + end])
    return digest.hexdigest()[:16]


def hash_of_losses(run):
    losses = []
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        losses += [(key, value) for key, value in sorted(record.items()) if "loss" in key]
    if not losses:
        sys.exit(f"{run.name} has no losses in metrics.jsonl")
    return hashlib.sha256(repr(losses).encode()).hexdigest()[:16]


def make_base(binary, folder):
    """A model folder: the checkpoint of a run without the files for resuming."""
    run = train(binary, folder, "base-run", TOKENS)
    shutil.copytree(last_checkpoint(run), folder / "base", ignore=shutil.ignore_patterns("state.*", "run.yaml"))
    shutil.copy(folder / "tokenizer/tokenizer_config.json", folder / "base")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("-j", type=int, default=2, metavar="N", help="runs at a time (default: 2)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="run-hashes-") as name:
        folder = pathlib.Path(name)
        write_data(folder)
        binary = arguments.binary.resolve()
        make_base(binary, folder)
        with concurrent.futures.ThreadPoolExecutor(arguments.j) as pool:
            runs = list(pool.map(lambda item: train(binary, folder, *item), RUNS.items()))
        for run in runs:
            print(f"{run.name:28} losses {hash_of_losses(run)} tensors {hash_of_tensors(last_checkpoint(run))}")


if __name__ == "__main__":
    main()
