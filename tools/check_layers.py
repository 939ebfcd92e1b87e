#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes in src and cli point down only. Prints what does not and exits 1."""
import re
import sys
from pathlib import Path

# A folder may include itself and those it stands on.
BELOW = {
    "core": [],
    "files": ["core"],
    "config": ["core"],
    "cpu": ["core"],
    "cuda": ["core", "files"],
    "ops": ["core", "cpu", "cuda"],
    "nn": ["core", "ops"],
    "models": ["core", "ops", "nn"],
    "adapters": ["core", "files", "cpu", "ops", "nn", "models", "checkpoint"],
    "optim": ["core", "ops", "nn"],
    "data": ["core", "files"],
    "tokenizer": ["core", "files"],
    "chat": ["core", "data", "tokenizer"],
    "labelled": ["core", "data", "tokenizer"],
    "corpus": ["core", "files", "data", "tokenizer"],
    "metrics": ["core", "files"],
    "tasks": ["core"],
    "checkpoint": ["core", "files"],
    "hf": ["core", "files", "ops", "nn", "models", "tokenizer", "checkpoint"],
    "train": ["core", "files", "adapters", "cuda", "config", "cpu", "ops", "nn", "models", "optim", "data", "tokenizer", "chat", "corpus", "labelled", "tasks", "metrics", "checkpoint", "hf"],
    "cli": ["core", "files", "config", "cuda", "data", "tokenizer", "corpus", "labelled", "tasks", "metrics", "train"],
}


def main():
    root = Path(__file__).resolve().parent.parent
    wrong = []
    for folder, allowed in BELOW.items():
        top = root / "cli" if folder == "cli" else root / "src" / folder
        for path in sorted(top.rglob("*")):
            if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = re.match(r'\s*#include "(\w+)/', line)
                if match and match[1] in BELOW and match[1] != folder and match[1] not in allowed:
                    wrong.append(f"{path.relative_to(root)}:{number}: {folder} must not include {match[1]}")
    print("\n".join(wrong) if wrong else "includes point down")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
