#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a checkpoint or tokenizer folder with Hugging Face's libraries and compares ids with ours.

    python3 tools/check_hf_folder.py build/gradmill runs/NAME/checkpoints/step-00001000 [TEXT...]

TEXTs are files, compared line by line and as a whole; without any, built-in texts are used. Needs the packages
tokenizers and transformers (pip install tokenizers transformers); exits 77 without them, and 1 if anything differs.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
try:
    from tokenizers import Tokenizer
    from transformers import AutoConfig, AutoTokenizer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SAMPLES = ["", " ", "\n", "The miller grinds corn.", "  two  spaces\tand\ttabs \n\n\n lines ", "don't we'll I'M 12345 3.14",
           "größer naïve œuvre İstanbul", "水车在河边转动。", "мельница крутится", "मिल चलती है", "👩‍👩‍👧‍👦 🏳️‍🌈 🙂",
           "for (int i = 0; i < n; ++i) { x[i] += y[i]; }", "a" * 300, "e\u0301 \u00e9 \ufb01 \u200b\u00a0x", "\u0000\u0007\u007f"]


def ours(binary, folder, text):
    result = subprocess.run([binary, "tokenizer", "encode", str(folder)], input=text.encode(), capture_output=True, check=True)
    return [int(word) for word in result.stdout.split()]


def texts(paths):
    for path in paths:
        whole = Path(path).read_text(encoding="utf-8")
        yield whole
        yield from whole.splitlines()[:200]
    if not paths:
        yield from SAMPLES


def check_special_tokens(folder, tokenizer):
    """All readers of the folder must agree on the token that ends a text."""
    config = folder / "config.json"
    if not config.exists():
        return []
    eos = json.loads(config.read_text()).get("eos_token_id")
    wrong = [] if eos == tokenizer.eos_token_id else [f"eos_token_id is {eos}, the tokenizer's {tokenizer.eos_token_id}"]
    vocab = AutoConfig.from_pretrained(folder).vocab_size
    return wrong + ([] if vocab >= len(tokenizer) else [f"vocab_size is {vocab}, the tokenizer has {len(tokenizer)}"])


def main():
    binary, folder, paths = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    auto = AutoTokenizer.from_pretrained(folder)
    wrong = check_special_tokens(folder, auto)
    plain = Tokenizer.from_file(str(folder / "tokenizer.json")) if (folder / "tokenizer.json").exists() else None
    if plain is not None:  # AutoTokenizer does this regardless of the file
        plain.no_padding()
        plain.no_truncation()
    count = 0
    for text in texts(paths):
        expected = auto.encode(text, add_special_tokens=False)
        if plain is not None and plain.encode(text, add_special_tokens=False).ids != expected:
            wrong.append(f"tokenizers and transformers differ on {text[:60]!r}")
        got = ours(binary, folder, text)
        count += 1
        if got != expected:
            wrong.append(f"{text[:60]!r}: {got[:12]} instead of {expected[:12]}")
    print("\n".join(wrong) if wrong else f"{type(auto).__name__}, {len(auto)} tokens: ids of {count} texts are equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
