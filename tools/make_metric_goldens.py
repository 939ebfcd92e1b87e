#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/goldens/task_metrics.json: metrics of random decisions, computed by scikit-learn and scipy."""
import json
from pathlib import Path

import numpy as np
from scipy import stats
from sklearn import metrics

rng = np.random.default_rng(7)


def classes(name, count, size, skew=None, missing=None):
    weights = np.ones(count) if skew is None else np.array(skew, float)
    truth = rng.choice(count, size, p=weights / weights.sum())
    if missing is not None:
        truth[truth == missing] = (missing + 1) % count
    logits = rng.normal(size=(size, count)).round(1)  # rounded to get ties
    logits[np.arange(size), truth] += 1
    if missing is not None:
        logits[:, missing] = -50
    scores = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    scores = scores.astype(np.float32)
    decisions = scores.argmax(1)
    ids = list(range(count))
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(truth, decisions, labels=ids, zero_division=0)
    if missing is not None:
        auroc = None
    elif count == 2:
        auroc = metrics.roc_auc_score(truth, scores[:, 1])
    else:
        auroc = np.mean([metrics.roc_auc_score(truth == k, scores[:, k]) for k in ids])
    return {
        "name": name, "classes": count, "truth": truth.tolist(), "decisions": decisions.tolist(),
        "scores": scores.flatten().astype(float).tolist(),
        "confusion": metrics.confusion_matrix(truth, decisions, labels=ids).tolist(),
        "precision": precision.tolist(), "recall": recall.tolist(), "f1": f1.tolist(),
        "accuracy": metrics.accuracy_score(truth, decisions),
        "micro_f1": metrics.f1_score(truth, decisions, average="micro"),
        "macro_f1": metrics.f1_score(truth, decisions, average="macro"),
        "weighted_f1": metrics.f1_score(truth, decisions, average="weighted"),
        "mcc": metrics.matthews_corrcoef(truth, decisions), "auroc": auroc,
    }


def numbers(size, noise):
    truth = rng.normal(size=size).round(1).astype(np.float32)
    predicted = (truth + noise * rng.normal(size=size)).round(1).astype(np.float32)
    a, b = predicted.astype(float), truth.astype(float)
    return {
        "predicted": a.tolist(), "truth": b.tolist(), "mse": metrics.mean_squared_error(b, a),
        "mae": metrics.mean_absolute_error(b, a), "pearson": stats.pearsonr(a, b)[0],
        "spearman": stats.spearmanr(a, b)[0],
    }


def thresholds(size, share):
    positive = (rng.random(size) < share).astype(int)
    scores = np.clip(0.3 * positive + 0.7 * rng.random(size), 0, 1).round(2).astype(np.float32)
    cuts = [-1.0, 2.0] + [float(s) for s in scores]
    score_of = {"f1": lambda d: metrics.f1_score(positive, d, zero_division=0),
                "accuracy": lambda d: metrics.accuracy_score(positive, d),
                "mcc": lambda d: metrics.matthews_corrcoef(positive, d)}
    best = {name: max(f((scores >= c).astype(int)) for c in cuts) for name, f in score_of.items()}
    return {"scores": scores.astype(float).tolist(), "positive": positive.tolist(), "best": best}


def main():
    golden = {
        "classes": [classes("binary", 2, 60), classes("skewed", 2, 80, [9, 1]), classes("three", 3, 60),
                    classes("seven", 7, 90), classes("one never occurs", 4, 50, missing=2)],
        "numbers": [numbers(40, 0.5), numbers(25, 3.0)],
        "thresholds": [thresholds(50, 0.5), thresholds(70, 0.1), thresholds(30, 0.8)],
    }
    path = Path(__file__).resolve().parent.parent / "tests/goldens/task_metrics.json"
    path.write_text(json.dumps(golden) + "\n")
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
