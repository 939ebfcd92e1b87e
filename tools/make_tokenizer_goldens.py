#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/goldens/tokenizer_*.json with Hugging Face's `tokenizers` (pip install tokenizers).

tokenizer_texts.json holds the texts; the first `num_train` of them are what the tokenizers below learned from.
tokenizer_<name>.json is a tokenizer.json, as the library writes it but without indentation, with one more member,
`goldens`: `train` (the settings it was learned with, before tokens were added), `hashes` (FNV-1a of the ids of each
text), `ids` (the ids themselves, of the first texts) and `decodes` (ids, text, text without special tokens). Readers of
the format ignore the member.
"""
import json
import random
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens"
NUM_TRAIN, NUM_TEXTS, NUM_IDS, NUM_DECODES = 600, 2600, 60, 60

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = CL100K.replace("{1,3}", "")

PIECES = [
    "the", "The", "quick", "brown fox", "jumps", "over", "hello", "world", "they're", "I'll", "DON'T", "it's", "WE'VE",
    "'S", "'ſ", "'d've", "'", "''", "’s", "naïve", "café", "cafe\u0301", "Ångström", "A\u030a", "Å", "größer", "straße",
    "ção", "über", "Здравствуй", "мир", "слово", "γλώσσα", "日本語", "中文字符", "東京", "こんにちは", "カタカナ", "한국어",
    "\u1112\u1161\u11ab", "สวัสดี", "नमस्ते", "हिन्दी", "مرحبا", "שלום", "Việt", "ﬁne", "Ǆ", "ʰ", "ª", "😀", "👩‍👩‍👧", "🇩🇪", "❤️", "☃",
    "0", "1", "12", "123", "1234", "3.14159", "1,000,000", "٣٤٥", "१२३", "Ⅷ", "½", "x²", "①", "\U00011f50", "\U00031350",
    "\U0001e4d0", "\u0378", "def f(x):", "return x+1;", "if (a != b) {", "}", "//", "/* ok */", "#include <a.h>", "a_b",
    "a->b", "::", "<br/>", "&amp;", "==", "!!!", "...", "…", "—", "$5", "€", "%", "@user", "http://x.y/z?q=1", "\\n", "\"",
    " ", "  ", "   ", "        ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", " \n \n ", "\u00a0", "\u3000",
    "\u2028", "\u0085", "\u200b", "\ufeff", "\x0b", "\x0c", "\x1c", "\x00", "\x7f", "\u00ad", "\u0300", "\u0323\u0307",
    "<|endoftext|>", "<|end", "[MASK]", "<sep>", "word", "sword", "tail", "caf\u00e9s", "aaaaaaaaaaaaaaaa",
    "abababababababababab", "antidisestablishmentarianism", "ffffffff", "\ufffd", "\uffff", "\U0010ffff",
]
JOINERS = ["", "", " ", " ", " ", "  ", "\n", "\t"]


def make_texts(rng):
    texts = ["", " ", "  ", "\n", "a", "é", "<|endoftext|>", " [MASK] ", "[MASK][MASK]  <sep>  <sep>x", "a" * 700,
             " " * 300, " " * 299 + "x", "\n" * 200 + " x", "1" * 200, "'" * 100, "e" + "\u0301\u0323" * 60, "ab" * 200]
    while len(texts) < NUM_TEXTS:
        parts = [rng.choice(PIECES) for _ in range(rng.choice([1, 2, 3, 4, 6]))]
        text = "".join(part + rng.choice(JOINERS) for part in parts)
        if rng.random() < 0.1:
            text = text.upper()
        if rng.random() < 0.1:
            text += chr(rng.choice([rng.randrange(0x20, 0xd800), rng.randrange(0xe000, 0x32400)]))
        texts.append(text)
    return texts


def split(pattern, **flags):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), **flags), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


KINDS = {
    "gpt2": dict(pre=pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "cl100k": dict(pre=split(CL100K, behavior="isolated"), ignore_merges=True),
    "qwen2": dict(pre=split(QWEN2, behavior="removed", invert=True), nfc=True),
    "digits": dict(pre=pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=True)])),
}
ADDED = [
    AddedToken("[MASK]", lstrip=True, normalized=False, special=True),
    AddedToken("<sep>", rstrip=True, normalized=False, special=True),
    AddedToken("<sep>x", normalized=False),
    AddedToken("word", single_word=True, normalized=True),
    AddedToken("cafe\u0301s", normalized=True),
    AddedToken("tail", lstrip=True, rstrip=True, normalized=True),
]


def fnv1a(values):
    result = 0xcbf29ce484222325
    for value in values:
        result = (result ^ value) * 0x100000001b3 % 2**64
    return f"{result & 0xffffffff:x}"


def make(name, texts, rng, pre, nfc=False, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    # Learned without normaliser and prefix, which the trainer in C++ does not have.
    tokenizer.pre_tokenizer = KINDS["gpt2"]["pre"] if name == "digits" else pre
    settings = dict(vocab_size=640, min_frequency=2, special_tokens=["<|endoftext|>"])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(texts[:NUM_TRAIN], trainers.BpeTrainer(
        **settings, initial_alphabet=alphabet, show_progress=False))
    tokenizer.pre_tokenizer = pre
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(ADDED)
    encodings = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    size = tokenizer.get_vocab_size()
    samples = [[rng.randrange(size) for _ in range(rng.randrange(1, 9))] for _ in range(NUM_DECODES)]
    file = json.loads(tokenizer.to_str())
    if name == "gpt2":  # as older versions write it
        file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]
        del file["model"]["type"]
    file["goldens"] = dict(
        train=settings, hashes=" ".join(map(fnv1a, encodings)), ids=encodings[:NUM_IDS],
        decodes=[[ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids)] for ids in samples])
    write(f"tokenizer_{name}", file)


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
    (GOLDENS / f"{name}.json").write_text(text, encoding="utf-8", newline="")


def main():
    rng = random.Random(7)
    texts = make_texts(rng)
    write("tokenizer_texts", dict(num_train=NUM_TRAIN, texts=texts))
    for name, kind in KINDS.items():
        make(name, texts, rng, **kind)


if __name__ == "__main__":
    main()
