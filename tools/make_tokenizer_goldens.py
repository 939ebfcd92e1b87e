#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/goldens/tokenizer_* with Hugging Face's `tokenizers` and `sentencepiece` (pip install both).

tokenizer_texts.json contains the texts; the tokenizers below learned from the first `num_train` of them.
tokenizer_<name>.json is a tokenizer.json as written by the library, but without indentation, with one more member,
`goldens`: `train` (the settings it was learned with, before tokens were added), `hashes` (FNV-1a of the ids of each
text), `ids` (the ids themselves, of the first texts), `decodes` (ids, text, text without special tokens) and `pairs`
(two texts with the template applied: their numbers, a maximal length, ids, types). Readers of the format ignore the
member. Trainers choose randomly among equal candidates, so files differ between runs. tokenizer_<name>.model is a
SentencePiece model, and tokenizer_<name>_model.json has its hashes and decodes.
"""
import io
import json
import random
import tempfile
from pathlib import Path

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens"
NUM_TRAIN, NUM_TEXTS, NUM_IDS, NUM_DECODES, NUM_PAIRS = 600, 1000, 20, 40, 30

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
    return f"{result & 0xffff:x}"


SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
FALLBACK = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]


def charsmap():
    """A small map in SentencePiece's compiled form."""
    rules = {"\ufb01": "fi", "\u2026": "...", "\u00bd": "1/2", "\t": " ", "\n": " ", "\r": " ", "\u3000": " ",
             "\u00a0": " ", "A\u030a": "\u00c5", "e\u0301": "\u00e9", "\u00ad": "", "\u200b": " ", "\u0085": " "}
    with tempfile.TemporaryDirectory() as folder:
        table, corpus = Path(folder) / "rules.tsv", Path(folder) / "corpus.txt"
        code = lambda text: " ".join(f"{ord(c):X}" for c in text)
        table.write_text("".join(f"{code(old)}\t{code(new)}\n" for old, new in rules.items()))
        corpus.write_text("a b c d e f g\n" * 30)
        prefix = str(Path(folder) / "m")
        sentencepiece.SentencePieceTrainer.train(input=str(corpus), model_prefix=prefix, vocab_size=30, minloglevel=2,
                                                 hard_vocab_limit=False, normalization_rule_tsv=str(table))
        from sentencepiece import sentencepiece_model_pb2
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString(Path(prefix + ".model").read_bytes())
        return model.normalizer_spec.precompiled_charsmap


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=500, show_progress=False, limit_alphabet=120,
                                        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    template = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1",
                                             [("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer, trainer, template


def deberta():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Precompiled(charsmap()),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(prepend_scheme="always"), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=500, show_progress=False, special_tokens=SPECIAL, unk_token="<unk>")
    return tokenizer, trainer, processors.RobertaProcessing(("</s>", 2), ("<s>", 1))


def llama2():
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence(FALLBACK + [decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=SPECIAL + BYTES, show_progress=False,
                                  limit_alphabet=90, max_token_length=20)
    return tokenizer, trainer, processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 1)])


def gemma():
    tokenizer = Tokenizer(models.BPE(byte_fallback=False, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Replace(" ", "\u2581")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(FALLBACK)
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False, limit_alphabet=90,
                                  max_token_length=20)
    return tokenizer, trainer, processors.BertProcessing(("</s>", 2), ("<s>", 1))


def suffixes():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                                 normalizers.Nmt(), normalizers.Strip(left=False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_next"),
        pre_tokenizers.Split(Regex(r"\d{2,3}|[a-c]+"), "merged_with_previous", invert=True)])
    tokenizer.decoder = decoders.BPEDecoder()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=SPECIAL, show_progress=False, limit_alphabet=90,
                                  end_of_word_suffix="</w>", continuing_subword_prefix="##")
    return tokenizer, trainer, None


def words():
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits()])
    return tokenizer, trainers.WordLevelTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False), None


GENERAL = dict(bert=bert, deberta=deberta, llama2=llama2, gemma=gemma, suffixes=suffixes, words=words)


def learn(name, texts, pre, nfc=False, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    # Learned without normaliser and prefix, which the C++ trainer does not support.
    tokenizer.pre_tokenizer = KINDS["gpt2"]["pre"] if name == "digits" else pre
    settings = dict(vocab_size=640, min_frequency=2, special_tokens=["<|endoftext|>"])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(texts[:NUM_TRAIN], trainers.BpeTrainer(
        **settings, initial_alphabet=alphabet, show_progress=False))
    tokenizer.pre_tokenizer = pre
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, settings


def learn_general(texts, recipe):
    tokenizer, trainer, template = recipe()
    tokenizer.train_from_iterator(texts[:NUM_TRAIN], trainer)
    if template:
        tokenizer.post_processor = template
    return tokenizer


def make(name, texts, rng, tokenizer, settings=None):
    tokenizer.add_tokens(ADDED)
    # The scores that the library reads from a file are not exactly those that it wrote. Bytes were added as special
    # tokens for the trainer only.
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] not in BYTES]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    encodings = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    size = tokenizer.get_vocab_size()
    samples = [[rng.randrange(size) for _ in range(rng.randrange(1, 9))] for _ in range(NUM_DECODES)]
    pairs = []
    for _ in range(NUM_PAIRS if tokenizer.post_processor else 0):
        first, second, limit = rng.randrange(NUM_TEXTS), rng.randrange(NUM_TEXTS), rng.randrange(5, 30)
        tokenizer.enable_truncation(limit)
        pair = tokenizer.encode(texts[first], texts[second])
        pairs.append([first, second, limit, pair.ids, pair.type_ids])
    tokenizer.no_truncation()
    file = json.loads(tokenizer.to_str())
    if name == "gpt2":  # the form that older versions write
        file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]
        del file["model"]["type"]
    file["goldens"] = dict(
        train=settings, hashes=" ".join(map(fnv1a, encodings)), ids=encodings[:NUM_IDS], pairs=pairs,
        decodes=[[ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids)] for ids in samples])
    write(f"tokenizer_{name}", file)


def make_model(name, texts, rng, **options):
    """A SentencePiece model of its own."""
    lines = [" ".join(text.split()) for text in texts[:NUM_TRAIN] if len(text) < 100]
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=writer, vocab_size=500, minloglevel=2, hard_vocab_limit=False,
        character_coverage=0.98, max_sentencepiece_length=12, num_threads=1, normalization_rule_name="identity",
        user_defined_symbols=["<sep>"], **options)
    model = writer.getvalue()
    (GOLDENS / f"tokenizer_{name}.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    size = processor.get_piece_size()
    samples = [[rng.randrange(size) for _ in range(rng.randrange(1, 9))] for _ in range(NUM_DECODES)]
    samples = [ids for ids in samples if not any(processor.is_control(i) or processor.is_byte(i) for i in ids)]
    write(f"tokenizer_{name}_model", dict(hashes=" ".join(fnv1a(processor.encode(text)) for text in texts),
                                          decodes=[[ids, processor.decode(ids)] for ids in samples]))


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
    (GOLDENS / f"{name}.json").write_text(text, encoding="utf-8", newline="")


def main():
    rng = random.Random(7)
    texts = make_texts(rng)
    write("tokenizer_texts", dict(num_train=NUM_TRAIN, texts=texts))
    for name, kind in KINDS.items():
        make(name, texts, rng, *learn(name, texts, **kind))
    for name, recipe in GENERAL.items():
        make(name, texts, rng, learn_general(texts, recipe))
    make_model("spm_unigram", texts, rng, model_type="unigram", control_symbols=["[CLS]", "[SEP]"])
    make_model("spm_bpe", texts, rng, model_type="bpe", byte_fallback=True, remove_extra_whitespaces=False)


if __name__ == "__main__":
    main()
