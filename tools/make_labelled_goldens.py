#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/goldens/labelled/*.json (pip install tokenizers transformers scikit-learn).

tokenizer.json is a small byte-level BPE with BERT's template. pairs.json: texts, their encodings by Hugging Face's `transformers` alone and
as pairs at several limits, and a padded batch. splits.json: labels and groups, how well scikit-learn's splitters
balance them, and its class weights. order.json: lengths, and the remaining padding with transformers' group_by_length.
"""
import json
import random
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils.class_weight import compute_class_weight
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "labelled"
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]
WORDS = ("the a cat dog sat slept on under mat house big small red blue and or but not very it's they're run running 12 345 "
         "naïve café größer 東京 😀 hello, world! (yes) \"no\" [SEP] [MASK] supercalifragilistic").split()


def write(name, value):
    (GOLDENS / name).write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


def make_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")])
    write("tokenizer.json", json.loads(tokenizer.to_str()))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
                                   mask_token="[MASK]", unk_token="[UNK]", model_input_names=["input_ids", "token_type_ids"])


def make_pairs(rng):
    text = lambda most: " ".join(rng.choice(WORDS) for _ in range(rng.randrange(most)))
    texts = [text(40) for _ in range(300)]
    tokenizer = make_tokenizer(texts)
    cases = []
    for number in range(60):
        first, second = text(rng.choice([3, 12, 40])), text(rng.choice([3, 12, 40]))
        case = {"first": first, "second": second, "encodings": []}
        for pair in (False, True):
            for limit in (0, 5, 12, 33):
                for side in ("right", "left") if number < 10 else ("right",):
                    tokenizer.truncation_side = side
                    options = dict(truncation="longest_first", max_length=limit) if limit else dict(truncation=False)
                    # As a list, because a single empty second text would count as missing.
                    encoded = tokenizer([first], [second] if pair else None, return_special_tokens_mask=True,
                                        return_token_type_ids=True, verbose=False, **options)
                    case["encodings"].append({"pair": pair, "limit": limit, "left": side == "left",
                                              "ids": encoded["input_ids"][0], "types": encoded["token_type_ids"][0],
                                              "special": encoded["special_tokens_mask"][0]})
        cases.append(case)
    tokenizer.truncation_side = "right"
    batch = tokenizer([case["first"] for case in cases[:8]], [case["second"] for case in cases[:8]],
                      truncation="longest_first", max_length=64, padding="longest", pad_to_multiple_of=8,
                      return_attention_mask=True, return_token_type_ids=True)
    write("pairs.json", {"cases": cases, "special": {name: tokenizer.convert_tokens_to_ids(name) for name in SPECIAL},
                         "batch": {"limit": 64, "ids": batch["input_ids"], "types": batch["token_type_ids"],
                                   "mask": batch["attention_mask"]}})


def worst(classes, parts, fractions):
    """The largest deviation of a class's number of examples on a side from its share."""
    return max(abs(np.sum(classes[part] == label) - np.sum(classes == label) * fraction)
               for part, fraction in zip(parts, fractions) for label in np.unique(classes))


def make_splits():
    sets = []
    for number, (size, weights, groups) in enumerate([
            (300, [1, 1], 40), (997, [90, 8, 2], 60), (500, [5, 4, 3, 2, 1], 120), (240, [1, 1, 1], 240), (400, [3, 1], 12)]):
        generator = np.random.default_rng(number)
        classes = generator.choice(len(weights), size=size, p=np.array(weights) / sum(weights))
        group = generator.integers(0, groups, size=size) if groups < size else np.arange(size)
        dummy = np.zeros(size)
        folds = [test for _, test in StratifiedKFold(5, shuffle=True, random_state=0).split(dummy, classes)]
        split = [part for part in next(StratifiedShuffleSplit(1, test_size=0.3, random_state=0).split(dummy, classes))]
        grouped = [test for _, test in StratifiedGroupKFold(5, shuffle=True, random_state=0).split(dummy, classes, group)]
        sets.append({"classes": classes.tolist(), "groups": group.tolist(),
                     "weights": compute_class_weight("balanced", classes=np.arange(len(weights)), y=classes).tolist(),
                     "worst_fold": worst(classes, folds, [0.2] * 5), "worst_split": worst(classes, split, [0.7, 0.3]),
                     "worst_group_fold": worst(classes, grouped, [0.2] * 5)})
    write("splits.json", sets)


def length_grouped(lengths, batch_size, generator):
    """get_length_grouped_indices of transformers' trainer_pt_utils, whose import needs torch."""
    count = min(len(lengths) // (batch_size * 4), 50) or 1
    indices, size = generator.permutation(len(lengths)), count * batch_size
    mega = [sorted(indices[i:i + size], key=lambda i: lengths[i], reverse=True) for i in range(0, len(lengths), size)]
    longest = int(np.argmax([lengths[part[0]] for part in mega]))
    mega[0][0], mega[longest][0] = mega[longest][0], mega[0][0]
    return [i for part in mega for i in part]


def make_order():
    generator = np.random.default_rng(5)
    lengths = np.clip(generator.lognormal(4, 0.7, 3000).astype(int), 5, 512).tolist()
    order = length_grouped(lengths, 16, generator)
    batches = [order[i:i + 16] for i in range(0, len(order), 16)]
    padded = sum(len(batch) * -(-max(lengths[i] for i in batch) // 8) * 8 for batch in batches)
    write("order.json", {"lengths": lengths, "batch_size": 16, "padded_tokens": padded})


if __name__ == "__main__":
    GOLDENS.mkdir(parents=True, exist_ok=True)
    make_pairs(random.Random(7))
    make_splits()
    make_order()
