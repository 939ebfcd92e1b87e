#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/goldens/embeddings_minilm.safetensors: sentence embeddings of all-MiniLM-L6-v2, computed by
transformers in one padded batch: the mean of a text's hidden states, scaled to length 1.

  make_embedding_golden.py --model MINILM

Needs torch and transformers."""
import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer

LENGTH = 256  # sentence-transformers truncates texts to this length for this model

TEXTS = [
    "Hi",
    "A man is playing the guitar.",
    "Someone plays a musical instrument.",
    "The stock market fell by three percent on Monday, its largest loss in a year.",
    "Das Wetter ist heute schön, aber morgen soll es regnen.",
    "日本語の短い文です。",
    "E = mc², said Einstein; \"naïve\" café owners disagreed — loudly!",
    "unbelievabilities antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "def mean(values):\n    return sum(values) / len(values)",
    "   spaces    and\ttabs \n and lines   ",
    "To be, or not to be, that is the question: whether 'tis nobler in the mind to suffer. " * 4,
    "Rain fell on the hills and the river rose over its banks while people slept in the valley below. " * 20,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModel.from_pretrained(args.model, attn_implementation="eager", dtype=torch.float32).eval()
    batch = tokenizer(TEXTS, padding=True, truncation=True, max_length=LENGTH, return_tensors="pt")
    mask = batch["attention_mask"].bool()
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    means = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    tensors = {"embeddings": torch.nn.functional.normalize(means, dim=1).contiguous(),
               "input_ids": batch["input_ids"][mask].to(torch.int32),
               "lengths": mask.sum(1).to(torch.int32)}
    metadata = {f"text.{i}": text for i, text in enumerate(TEXTS)} | {"max_length": str(LENGTH)}
    path = Path(__file__).resolve().parent.parent / "tests/goldens/embeddings_minilm.safetensors"
    save_file(tensors, path, metadata=metadata)
    print(path, path.stat().st_size, tensors["lengths"].tolist())


if __name__ == "__main__":
    main()
