#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes src/tokenizer/unicode_tables.h from what Hugging Face's `tokenizers` does with each code point.

Run as `python tools/make_unicode_tables.py && clang-format -i src/tokenizer/unicode_tables.h` where the package is
installed (pip install tokenizers). The library's parts follow different and mostly old versions of Unicode; ids agree
with it only where these tables do.
"""
from pathlib import Path

from tokenizers import normalizers, pre_tokenizers

OUT = Path(__file__).resolve().parent.parent / "src" / "tokenizer" / "unicode_tables.h"
POINTS = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]


def bert(**flags):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**(off | flags))


def removed_by(normalizer):
    return [c for c in POINTS if normalizer.normalize_str(chr(c)) == ""]


def ranges(points):
    result = []
    for c in sorted(points):
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def table(name, comment, points):
    rows = ", ".join(f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(points))
    return f"// {comment}\ninline constexpr CodePointRange {name}[] = {{{rows}}};\n"


def lower_runs():
    """Runs of capitals that all lie equally far from their small letters, with every one or every second a capital."""
    lower = normalizers.Lowercase()
    pairs = [(c, lower.normalize_str(chr(c))) for c in POINTS if c > 127]
    pairs = [(c, ord(small) - c) for c, small in pairs if len(small) == 1 and small != chr(c)]
    runs = []
    for c, delta in pairs:
        if runs and runs[-1][3] == delta and c - runs[-1][1] <= 2 and runs[-1][2] in (0, c - runs[-1][1]):
            runs[-1][1:3] = [c, c - runs[-1][1]]
        else:
            runs.append([c, c, 0, delta])
    return [(a, b, step or 1, delta) for a, b, step, delta in runs]


def moves(nfd, c):
    """Whether NFD knows c as a mark that has an order: it then passes a mark of class 240 or is passed by one of 1."""
    alone = nfd.normalize_str(chr(c))
    return (nfd.normalize_str("a\u0345" + chr(c)) != "a\u0345" + alone or
            nfd.normalize_str("a" + chr(c) + "\u0334") != "a" + alone + "\u0334")


def main():
    punctuation = pre_tokenizers.Punctuation()
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    lower = ", ".join(f"{{0x{a:X}, 0x{b:X}, {step}, {delta}}}" for a, b, step, delta in lower_runs())
    text = f"""// SPDX-License-Identifier: Apache-2.0
// What Hugging Face's library takes each character for. Made by tools/make_unicode_tables.py.
#pragma once

namespace gradmill::unicode {{

struct CodePointRange {{
  char32_t first, last;
}};
// Every `step`-th character from first to last has its small letter `delta` further on.
struct LowerRun {{
  char32_t first, last;
  int step, delta;
}};

{table("kBertRemoved", "What BertNormalizer's clean_text drops.", removed_by(bert(clean_text=True)))}
{table("kNonspacingMarks", "What BertNormalizer's strip_accents drops.", removed_by(bert(strip_accents=True)))}
{table("kCombiningMarks", "What StripAccents drops.", removed_by(normalizers.StripAccents()))}
{table("kPunctuation", "What BertPreTokenizer and Punctuation isolate.",
       [c for c in POINTS if len(punctuation.pre_tokenize_str("a" + chr(c))) == 2])}
{table("kOrderedMarks", "Marks that decomposition puts in order.",
       [c for c in POINTS if c > 0x2ff and nfd.normalize_str(chr(c)) == chr(c) and moves(nfd, c)])}
{table("kCanonical", "What NFD decomposes, Hangul apart.",
       [c for c in POINTS if not 0xac00 <= c < 0xd7a4 and nfd.normalize_str(chr(c)) != chr(c)])}
{table("kCompatible", "What NFKD decomposes, Hangul apart.",
       [c for c in POINTS if not 0xac00 <= c < 0xd7a4 and nfkd.normalize_str(chr(c)) != chr(c)])}
// Beyond ASCII; U+0130, which becomes two characters, apart.
inline constexpr LowerRun kLowerRuns[] = {{{lower}}};

}}  // namespace gradmill::unicode
"""
    OUT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
