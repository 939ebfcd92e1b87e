#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of encoding, and of learning a BPE, beside Hugging Face's `tokenizers`.

    ninja -C build tokenizer_bench
    python bench/tokenizer_speed.py build/bench/tokenizer_bench TEXT [--threads N] [--tokenizer FILE...]

Needs pip install tokenizers. The same lines of TEXT go through both, with the same number of threads, in turns, so that
both meet the same noise; the fastest of ROUNDS counts. Without --tokenizer a byte-level BPE is learned from TEXT, which
is timed too. Of theirs encode_batch_fast is called, which leaves offsets out as we do.
"""
import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path


def ours(bench, *args):
    return subprocess.run([bench, *map(str, args)], check=True, capture_output=True, text=True).stdout


def report(what, ours_s, theirs_s, size):
    print(f"{what}: ours {ours_s:.3f} s ({size / ours_s / 1e6:.1f} MB/s), theirs {theirs_s:.3f} s "
          f"({size / theirs_s / 1e6:.1f} MB/s): {theirs_s / ours_s:.2f}x", flush=True)


def compare_training(bench, text, threads, rounds, vocab_size, folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    mine, their, best = folder / "ours.json", folder / "theirs.json", [1e9, 1e9]
    for _ in range(rounds):
        best[0] = min(best[0], float(ours(bench, "train", text, vocab_size, threads, mine).split()[0]))
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=["<|endoftext|>"], show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        start = time.perf_counter()
        tokenizer.train([str(text)], trainer)
        best[1] = min(best[1], time.perf_counter() - start)
        tokenizer.save(str(their))
    same = Tokenizer.from_file(str(mine)).get_vocab() == Tokenizer.from_file(str(their)).get_vocab()
    report(f"learning {vocab_size} tokens ({'the same' if same else 'OTHER'} result)", *best, text.stat().st_size)
    return mine


def compare_encoding(bench, text, threads, rounds, path):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    lines = text.read_bytes().decode().split("\n")
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    best = [1e9, 1e9]
    for _ in range(rounds):
        output = ours(bench, "encode", path, text, threads, 1).split()
        best[0] = min(best[0], float(output[0]))
        start = time.perf_counter()
        encodings = tokenizer.encode_batch_fast(lines, add_special_tokens=False)
        best[1] = min(best[1], time.perf_counter() - start)
        assert sum(len(e) for e in encodings) == int(output[1]), "other tokens"
    report(f"encoding with {path.name}, {int(output[1]) / best[0] / 1e6:.1f} million tokens/s", *best,
           text.stat().st_size)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("text", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--vocab-size", type=int, default=32000)
    parser.add_argument("--tokenizer", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)  # before the library starts its threads
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if args.threads > 1 else "false"
    with tempfile.TemporaryDirectory() as folder:
        paths = args.tokenizer or [compare_training(args.bench, args.text, args.threads, max(2, args.rounds // 2),
                                                    args.vocab_size, Path(folder))]
        for path in paths:
            compare_encoding(args.bench, args.text, args.threads, args.rounds, path)


if __name__ == "__main__":
    main()
