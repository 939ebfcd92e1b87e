#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a BERT folder on RTE with transformers and with gradmill, from the same weights on the same batches.

  compare_rte.py losses --gradmill build/gradmill --model MINILM --data RTE      50 losses side by side, dropout 0
  compare_rte.py accuracy --seeds 20 --results FILE ...                          the whole recipe, mean accuracy of both;
                                                                                 seeds that FILE has are not run again
  compare_rte.py golden --model MINILM --data RTE                                tests/goldens/rte_minilm.safetensors

Needs torch and transformers. RTE is GLUE's folder with train.tsv and dev.tsv."""
import argparse
import csv
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

LABELS = ["entailment", "not_entailment"]
BATCH, LENGTH, LR, DECAY, CLIP = 32, 256, 2e-5, 0.01, 1.0


def read(path):
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(r["sentence1"], r["sentence2"], LABELS.index(r["label"])) for r in rows]


def make_model(folder, dropout, seed):
    torch.manual_seed(seed)
    return AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=2, id2label=dict(enumerate(LABELS)), label2id={n: i for i, n in enumerate(LABELS)},
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, classifier_dropout=dropout,
        attn_implementation="eager", dtype=torch.float32)


def encode(tokenizer, rows):
    batch = tokenizer([r[0] for r in rows], [r[1] for r in rows], truncation="longest_first", max_length=LENGTH,
                      padding=True, return_tensors="pt")
    return batch, torch.tensor([r[2] for r in rows])


def optimizer_of(model):
    # Like gradmill: matrices decay, vectors do not.
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.999), eps=1e-8)


def step(model, optimizer, batch, targets):
    loss = model(**batch, labels=targets).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return loss.item()


def torch_losses(model, tokenizer, rows, steps):
    model.train()
    optimizer = optimizer_of(model)
    return [step(model, optimizer, *encode(tokenizer, rows[i * BATCH:(i + 1) * BATCH])) for i in range(steps)]


def gradmill_run(args, folder, out, *settings):
    command = [args.gradmill, "train", "task=classify", f"model.path={folder}", f"data.path={args.data}/train.tsv",
               f"data.validation_path={args.data}/dev.tsv", "data.labels=" + ",".join(LABELS),
               f"model.context={LENGTH}", f"training.batch_size={BATCH}", f"optimizer.lr={LR}",
               f"optimizer.weight_decay={DECAY}", f"optimizer.clip={CLIP}", f"checkpoint.dir={out}",
               f"machine.device={args.device}", "logging.every_steps=1", "logging.progress=off", *settings]
    subprocess.run(command, check=True)
    return [json.loads(line) for line in open(Path(out) / "metrics.jsonl")]


def losses(args):
    rows = read(Path(args.data) / "train.tsv")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "start"
        model, tokenizer = make_model(args.model, 0.0, 0), AutoTokenizer.from_pretrained(args.model)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        metrics = gradmill_run(args, folder, Path(temporary) / "run", "model.dropout=0", "data.order=sequential",
                               "training.epochs=0", f"training.steps={args.steps}", "schedule.name=constant",
                               "schedule.warmup_fraction=0", "eval.every_epochs=0", "machine.dtype=fp32")
        ours = [m["loss"] for m in metrics if m["kind"] == "train"]
        theirs = torch_losses(model, tokenizer, rows, args.steps)
    worst = max(abs(a - b) for a, b in zip(ours, theirs))
    for i, (a, b) in enumerate(zip(ours, theirs)):
        print(f"{i + 1:3d}  gradmill {a:.6f}  transformers {b:.6f}  {abs(a - b):.1e}")
    print(f"largest difference {worst:.2e} over {len(ours)} steps")
    return 0 if len(ours) == args.steps and worst < 1e-3 else 1


def torch_accuracy(args, seed, train, dev, tokenizer):
    model = make_model(args.model, 0.1, seed).to(args.torch_device)
    optimizer, order = optimizer_of(model), random.Random(seed)
    total = 3 * ((len(train) + BATCH - 1) // BATCH)
    warmup = -(-total * 6 // 100)
    done, best = 0, 0.0
    for _ in range(3):
        model.train()
        shuffled = train[:]
        order.shuffle(shuffled)
        for i in range(0, len(shuffled), BATCH):
            rate = min((done + 1) / warmup, 1) if done < warmup else (total - done) / (total - warmup)
            for group in optimizer.param_groups:
                group["lr"] = LR * rate
            batch, targets = encode(tokenizer, shuffled[i:i + BATCH])
            step(model, optimizer, batch.to(args.torch_device), targets.to(args.torch_device))
            done += 1
        model.eval()
        right = 0
        with torch.no_grad():
            for i in range(0, len(dev), 64):
                batch, targets = encode(tokenizer, dev[i:i + 64])
                right += (model(**batch.to(args.torch_device)).logits.argmax(1).cpu() == targets).sum().item()
        best = max(best, right / len(dev))
    return best


def gradmill_accuracy(args, seed):
    with tempfile.TemporaryDirectory() as temporary:
        metrics = gradmill_run(args, args.model, Path(temporary) / "run", f"training.seed={seed}")
    return max(m["accuracy"] for m in metrics if m["kind"] == "eval")


def kept_results(path):
    if not path or not Path(path).exists():
        return {}
    lines = [json.loads(line) for line in open(path)]
    return {(line["who"], line["seed"]): line["accuracy"] for line in lines}


def accuracy(args):
    train, dev = read(Path(args.data) / "train.tsv"), read(Path(args.data) / "dev.tsv")
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    measure = {"gradmill": lambda seed: gradmill_accuracy(args, seed),
               "transformers": lambda seed: torch_accuracy(args, seed, train, dev, tokenizer)}
    results = kept_results(args.results)
    for seed in range(args.seeds):
        for who, run in measure.items():
            if (who, seed) in results:
                continue
            begin = time.monotonic()
            results[who, seed] = run(seed)
            line = dict(who=who, seed=seed, accuracy=results[who, seed], seconds=round(time.monotonic() - begin, 1))
            print(json.dumps(line), flush=True)
            if args.results:
                with open(args.results, "a") as file:
                    file.write(json.dumps(line) + "\n")
    means = {who: statistics.mean(results[who, seed] for seed in range(args.seeds)) for who in measure}
    print(f"mean of {args.seeds}: gradmill {means['gradmill']:.4f}  transformers {means['transformers']:.4f}")
    return 0 if means["gradmill"] >= means["transformers"] - 0.015 else 1


def golden(args):
    from safetensors.torch import save_file
    model, tokenizer = make_model(args.model, 0.0, 0), AutoTokenizer.from_pretrained(args.model)
    head = {n: p.detach().clone() for n, p in model.named_parameters() if n.startswith("classifier.")}
    head["losses"] = torch.tensor(torch_losses(model, tokenizer, read(Path(args.data) / "train.tsv"), args.steps))
    path = Path(__file__).resolve().parent.parent / "tests/goldens/rte_minilm.safetensors"
    save_file(head, path)
    print(path, path.stat().st_size)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["losses", "accuracy", "golden"])
    parser.add_argument("--gradmill", default="build/gradmill")
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--results", help="of accuracy: a JSON line for every run, kept from call to call")
    parser.add_argument("--device", default="cpu", help="gradmill's")
    parser.add_argument("--torch-device", default="cpu")
    args = parser.parse_args()
    return {"losses": losses, "accuracy": accuracy, "golden": golden}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
