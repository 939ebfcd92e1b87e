#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our token ids, and the texts decoded from them, with Hugging Face's `tokenizers` and with `sentencepiece`.

    ninja -C build tokenizer_bench
    python tools/compare_tokenizers.py build/bench/tokenizer_bench [FILE...]

Needs pip install tokenizers sentencepiece. Encodes over 50,000 varied texts with tokenizers that are learned here (one
of each kind) and with each FILE: a tokenizer.json, a SentencePiece .model, or a vocab.txt of BERT. For each, prints the
number of texts with different ids and with a different decoded text, and exits 1 if there are any.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import sentencepiece
from tokenizers import (AddedToken, BertWordPieceTokenizer, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, trainers)

from make_tokenizer_goldens import BYTES, CL100K, JOINERS, PIECES, QWEN2, SPECIAL

NUM_TEXTS = 50_400
CODE = ["for (int i = 0; i < n; ++i) {\n    sum += a[i] * b[i];\n}\n", "x->y::z<T>&& = 0xFFu;",
        "def f(x, *, y=None):\n\treturn {**x, 'y': y}\n", "<div class=\"a b\">&nbsp;</div>\r\n",
        "SELECT * FROM t WHERE a >= 3.5e-7 AND b LIKE '%x_%';\n"]
SENTENCES = [
    "The quick brown fox jumps over the lazy dog, doesn't it? They'll say \u201cno\u201d \u2014 we've heard that\u2026",
    "Der größte Teil der Straße wurde im Jahr 1987 für 3.450,00 € erneuert.",
    "L'été dernier, j'ai mangé des crêpes à l'œuf près de la forêt.", "El niño comió piñas; ¿qué más quería? ¡Nada!",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "いろはにほへと ちりぬるを。東京タワーは333メートルです。", "我能吞下玻璃而不伤身体。天地玄黃，宇宙洪荒。",
    "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요", "मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती।",
    "أنا قادر على أكل الزجاج و هذا لا يؤلمني.", "אני יכול לאכול זכוכית וזה לא מזיק לי.",
    "ฉันกินกระจกได้ แต่มันไม่ทำให้ฉันเจ็บ", "நான் கண்ணாடி சாப்பிடுவேன்",
    "Tôi có thể ăn thủy tinh mà không hại gì.", "Ben cam yiyebilirim, İstanbul'da bile ığdır.",
    "👩🏽‍🚀 went to 🇯🇵🇩🇪 for 🍣🍣 and ❤️‍🔥 ✨😀😃", "ﬁnal oﬃce Ⅷ ½ x² ① ㎏ ｆｕｌｌｗｉｄｔｈ ＡＢＣ ﷺ", "Z̴͎͝a̵̛l̷͚g̶̈o̷ ẹ́ ạ̈ q̃̇̂"]


def random_char(rng):
    low, high = rng.choice([(0, 0x80), (0x80, 0x250), (0x250, 0x2000), (0x2000, 0x3000), (0x3000, 0xd800),
                            (0xe000, 0x10000), (0x10000, 0x20000), (0x20000, 0x32400)])
    return chr(rng.randrange(low, high))


def random_text(rng):
    kind = rng.random()
    if kind < 0.35:
        return "".join(rng.choice(PIECES) + rng.choice(JOINERS) for _ in range(rng.choice([1, 2, 3, 6, 12])))
    if kind < 0.6:
        words = rng.choice(SENTENCES).split(" ")
        rng.shuffle(words)
        return " ".join(words[:rng.randrange(1, len(words) + 1)]).swapcase() if rng.random() < 0.2 else " ".join(words)
    if kind < 0.7:
        return rng.choice(CODE) * rng.randrange(1, 3) + rng.choice(CODE)[rng.randrange(20):]
    if kind < 0.8:
        return "".join(random_char(rng) for _ in range(rng.randrange(1, 12)))
    if kind < 0.87:
        return "".join(rng.choice([" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "a", "\u200b"])
                       for _ in range(rng.randrange(1, 30)))
    if kind < 0.95:  # replaces bytes that are not UTF-8
        whole = rng.choice(SENTENCES).encode()
        at = rng.randrange(len(whole))
        return (whole[at:at + 40] + rng.randbytes(rng.randrange(6))).decode("utf-8", "replace")
    if kind < 0.97:
        return "".join(rng.choice("abcdeé日😀'1") for _ in range(rng.randrange(90, 600)))
    return random_char(rng) * rng.randrange(1, 200)


def make_texts():
    rng = random.Random(11)
    texts = ["", " ", "  a", "a  ", "\u2581", "\u2581a\u2581", " \u2581", "a" * 5000, "ab" * 3000, " " * 3000,
             "é" * 2000, "👍" * 1000, "<s>a</s>", "<unk>", "[UNK] [CLS]", "\ufffd", "e" + "\u0301\u0323" * 500]
    texts += SENTENCES + CODE + [" ".join(SENTENCES)]
    return texts + [random_text(rng) for _ in range(NUM_TEXTS - len(texts))]


def training_texts(texts):
    """Removes most of the characters that occur only once or twice, so that some text stays unknown."""
    known = set("".join(SENTENCES + CODE))
    return [text for text in texts if len(text) < 700 and known.issuperset(text)][:6000]


def byte_level(pre, **settings):
    tokenizer = Tokenizer(models.BPE(**settings.pop("model", {})))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre, decoders.ByteLevel()
    if settings.get("nfc"):
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer, trainers.BpeTrainer(vocab_size=2000, special_tokens=["<|endoftext|>"], show_progress=False,
                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def word_piece(**options):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    return tokenizer, trainers.WordPieceTrainer(vocab_size=2000, show_progress=False, limit_alphabet=400,
                                                special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])


def unigram(normalizer, pre):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, trainers.UnigramTrainer(vocab_size=2000, show_progress=False, special_tokens=SPECIAL,
                                              unk_token="<unk>")


def fallback_bpe(pre, normalizer=None, decoder=None):
    """Like Llama 2 and Gemma. The bytes are special tokens for the trainer only."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoder
    return tokenizer, trainers.BpeTrainer(vocab_size=2000, special_tokens=SPECIAL + BYTES, show_progress=False,
                                          limit_alphabet=500)


def charsmap(folder):
    """The normalisation that SentencePiece compiles into its models."""
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(SENTENCES * 4), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(input=str(corpus), model_prefix=str(folder / "nmt"), vocab_size=400,
                                             model_type="unigram", minloglevel=2, character_coverage=0.98,
                                             hard_vocab_limit=False)
    from sentencepiece import sentencepiece_model_pb2
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString((folder / "nmt.model").read_bytes())
    return model.normalizer_spec.precompiled_charsmap


def learned(folder):
    gemma = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    llama = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                               decoders.Strip(" ", 1, 0)])
    nmt = normalizers.Precompiled(charsmap(folder))
    deberta = normalizers.Sequence([normalizers.Strip(), nmt, normalizers.Replace(Regex(" {2,}"), " ")])
    yield "gpt2", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "llama3", byte_level(split(CL100K), model=dict(ignore_merges=True))
    yield "qwen2", byte_level(split(QWEN2), nfc=True)
    yield "smollm2", byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    yield "bert_uncased", word_piece()
    yield "bert_cased", word_piece(lowercase=False)
    yield "unigram_nfkc", unigram(normalizers.NFKC(), pre_tokenizers.Metaspace())
    yield "deberta_v3", unigram(deberta, pre_tokenizers.Metaspace(prepend_scheme="always"))
    yield "xlm_roberta", unigram(nmt, pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]))
    yield "t5_lower", unigram(normalizers.Sequence([normalizers.Nmt(), normalizers.NFKD(), normalizers.StripAccents(),
                                                    normalizers.Lowercase()]), pre_tokenizers.Whitespace())
    yield "llama2_legacy", fallback_bpe(pre_tokenizers.Split(" ", "merged_with_previous"), normalizers.Sequence([
        normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), llama)
    yield "llama2", fallback_bpe(pre_tokenizers.Metaspace(prepend_scheme="first", split=False), decoder=llama)
    yield "gemma3", fallback_bpe(pre_tokenizers.Split(" ", "merged_with_previous"),
                                 normalizers.Replace(" ", "\u2581"), gemma)
    clip = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=False))
    clip.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                                            normalizers.Lowercase()])
    clip.pre_tokenizer, clip.decoder = pre_tokenizers.Punctuation("contiguous"), decoders.BPEDecoder()
    yield "suffix_bpe", (clip, trainers.BpeTrainer(vocab_size=2000, special_tokens=SPECIAL, end_of_word_suffix="</w>",
                                                   limit_alphabet=300, show_progress=False))


def make_files(folder, texts):
    for name, (tokenizer, trainer) in learned(folder):
        tokenizer.train_from_iterator(training_texts(texts), trainer)
        tokenizer.add_tokens([AddedToken("[MASK]", lstrip=True, special=True), AddedToken("Jumps", normalized=True),
                              AddedToken("fox", single_word=True, rstrip=True, normalized=False)])
        file = json.loads(tokenizer.to_str())
        file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] not in BYTES]
        path = folder / f"{name}.json"
        path.write_text(json.dumps(file))
        yield path
    for kind, extra in [("unigram", {}), ("bpe", {}), ("unigram", dict(byte_fallback=True)),
                        ("bpe", dict(byte_fallback=True, normalization_rule_name="identity", split_digits=True,
                                     remove_extra_whitespaces=False, user_defined_symbols=["<sep>", "fox j"])),
                        ("unigram", dict(user_defined_symbols=["<sep>", "größ"], control_symbols=["[CLS]", "[SEP]"],
                                         add_dummy_prefix=False))]:
        corpus = folder / "texts.txt"
        lines = [text.replace("\n", " ").replace("\r", " ") for text in training_texts(texts)]
        corpus.write_text("\n".join(lines), encoding="utf-8")
        prefix = folder / f"sp_{kind}_{len(extra)}"
        sentencepiece.SentencePieceTrainer.train(input=str(corpus), model_prefix=str(prefix), vocab_size=2000,
                                                 model_type=kind, minloglevel=2, character_coverage=0.98,
                                                 hard_vocab_limit=False, num_threads=1, **extra)
        yield prefix.with_suffix(".model")


def expected(path, texts):
    """Ids and decoded texts, and whether special tokens are parsed in the text."""
    if path.suffix == ".model":
        processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        ids = processor.encode(texts)
        return ids, [processor.decode(i) for i in ids], "plain"
    if path.suffix == ".txt":
        tokenizer = BertWordPieceTokenizer(str(path), lowercase=True)
    else:
        tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    return ids, tokenizer.decode_batch(ids, skip_special_tokens=False), "special"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--only-files", action="store_true", help="nothing that is learned here")
    args = parser.parse_intermixed_args()
    texts = make_texts()
    num_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        lines = folder / "texts.jsonl"
        lines.write_text("".join(json.dumps(t) + "\n" for t in texts))
        made = [] if args.only_files else make_files(folder, texts)
        for path in [*made, *args.files]:
            ids, decoded, special = expected(path, texts)
            run = subprocess.run([args.bench, "ids", str(path), str(lines), special], capture_output=True, text=True)
            if run.returncode:
                sys.exit(f"{path}: {run.stderr}")
            got = [json.loads(line) for line in run.stdout.split("\n") if line]
            wrong = [i for i in range(len(texts)) if got[i]["ids"] != ids[i]]
            undone = [i for i in range(len(texts)) if got[i]["text"] != decoded[i]]
            num_wrong += len(wrong) + len(undone)
            print(f"{path.name}: {len(texts)} texts, {len(wrong)} with other ids, {len(undone)} decoded otherwise",
                  flush=True)
            for i in wrong[:3]:
                print(f"  {texts[i]!r:.200}\n    ours   {str(got[i]['ids']):.200}\n    theirs {str(ids[i]):.200}")
            for i in undone[:3]:
                print(f"  {ids[i]!r:.100}\n    ours   {got[i]['text']!r:.200}\n    theirs {decoded[i]!r:.200}")
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
