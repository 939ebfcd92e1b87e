#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists functions and constants that headers of src and cli declare and nothing but tests uses, by name: one counts as
used where its name stands anywhere in src, cli or bench but at the head of a declaration or definition. So a name that
something else also has may hide an unused one; what is listed is unused. Exits 1 unless ALLOWED names all of them."""
import re
import sys
from collections import defaultdict
from pathlib import Path

# Name: why it stays though only tests, or nobody, uses it.
ALLOWED = {
    "epsilon_of": "what tests state tolerances in; it belongs to the table of types",
    "random_words": "the definition that tests hold the CPU's and the GPU's generators to",
    "num_calls": "a file system that fails on purpose; the binary has it too, for tests that kill it",
    "bytes_written": "the same",
    "add_document": "the usual way to write a shard; the program has its documents in parts",
    "stratified_folds": "cross-validation, which hyper-parameter search needs",
    "stratified_group_folds": "the same",
    "fold_split": "the same",
    "fetch_weights": "for exports of a model that is in memory, as tests make them",
    "fresh_names": "unused: to go with the next change of the model families",
    "extra_names": "the same",
    "reduce_scatter": "the communicator's calls for several ranks, which have one implementation yet",
    "all_gather": "the same",
    "broadcast": "the same",
    "eval_sequences": "the loss of each sequence, which preference losses need",
    "end_step": "submit_step and wait in one, for callers that have nothing to do in between",
}

COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?:.*?)\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
WORD = re.compile(r"(?!__)[A-Za-z_]\w*")
# What stands before a name that is declared: a type, and nothing that makes it a part of an expression.
HEAD = re.compile(r"^\s*(?:template\s*<.*>\s*)?[\w:<>,&*\[\]~ ]*[\w>&*\]]\s+[&*]*(?:\w+(?:<[\w, ]*>)?::)*$")
EXPRESSION = re.compile(r"\b(return|else|throw|new|delete|case|goto|co_return|co_yield|co_await|using|typename)\b")
TYPE = re.compile(r"\b(struct|class|enum|namespace|union|concept)\b")
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".in"}


def code_lines(path):
    return COMMENT_OR_STRING.sub(" ", path.read_text()).splitlines()


def is_head(before):
    return bool(HEAD.match(before)) and not EXPRESSION.search(before) and not TYPE.search(before)


def is_function(after):
    return re.match(r"\s*(<[^>]*>)?\(", after) is not None


def occurrences(root, folders):
    """Every word of the code: path, line number, word, and what stands before and after it in its line."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            for number, line in enumerate(code_lines(path), 1):
                for match in WORD.finditer(line):
                    yield path, number, match[0], line[: match.start()], line[match.end():]


def unused(root):
    declared, used = {}, defaultdict(int)
    for path, number, word, before, after in occurrences(root, ["src", "cli", "bench"]):
        if is_head(before) and (is_function(after) or before.startswith("inline constexpr")):
            if path.suffix in {".h", ".cuh"}:
                declared.setdefault(word, f"{path.relative_to(root)}:{number}")
        else:
            used[word] += 1
    return {word: where for word, where in declared.items() if not used[word]}


def main():
    root = Path(__file__).resolve().parent.parent
    found = unused(root)
    tested = {word for _, _, word, _, _ in occurrences(root, ["tests"])}
    wrong = [f"{where}: {word} is used by {'tests alone' if word in tested else 'nothing'}"
             for word, where in sorted(found.items(), key=lambda item: item[1]) if word not in ALLOWED]
    wrong += [f"tools/check_unused.py: {word} is used: take it off the list" for word in ALLOWED if word not in found]
    print("\n".join(wrong) if wrong else "everything that headers declare is used")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
