#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a run's folder with TensorBoard's own readers and prints what they find.

If the folder has a metrics.jsonl, every scalar must be in it with the same step and value, and nothing may be
missing. Exits 1 if this does not hold, and 77 if the tensorboard package is not installed.
"""
import json
import math
import struct
import sys
from pathlib import Path

try:
    from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
    from tensorboard.plugins.hparams import plugin_data_pb2
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TAGS = {
    "train": {"train/loss": "loss", "train/learning_rate": "lr", "train/grad_norm": "grad_norm",
              "train/epoch": "epoch", "train/tokens_per_s": "tokens_per_s"},
    "eval": {"eval/loss": "loss", "eval/perplexity": "perplexity"},
}
ALWAYS = {"train/loss", "train/grad_norm", "eval/loss"}  # recorded even when not finite


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def expected_scalars(path):
    """Maps each tag to [(step, value)], from metrics.jsonl."""
    expected = {tag: [] for tags in TAGS.values() for tag in tags}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        for tag, key in TAGS.get(record["kind"], {}).items():
            if record[key] is not None:
                expected[tag].append((record["step"], float32(record[key])))
            elif tag in ALWAYS:
                expected[tag].append((record["step"], math.nan))
    return {tag: points for tag, points in expected.items() if points}


def same(a, b):
    return len(a) == len(b) and all(
        p[0] == q[0] and (p[1] == q[1] or (math.isnan(p[1]) and math.isnan(q[1]))) for p, q in zip(a, b))


def print_texts_and_hparams(events):
    for tag in events.Tags()["tensors"]:
        data = events.SummaryMetadata(tag).plugin_data
        if data.plugin_name == "text":
            for event in events.Tensors(tag):
                print(f"text     {tag}  step {event.step}: {event.tensor_proto.string_val[0].decode()}")
        elif data.plugin_name == "hparams":
            content = plugin_data_pb2.HParamsPluginData.FromString(data.content)
            print(f"hparams  {tag}: {' '.join(str(content).split())}")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_tensorboard.py RUN_FOLDER")
    folder = Path(sys.argv[1])
    events = event_accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    plugin_events = plugin_event_accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0})
    plugin_events.Reload()

    found = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    for tag, points in sorted(found.items()):
        (first, _), (last, value) = points[0], points[-1]
        print(f"scalar   {tag}  {len(points)} points, steps {first} to {last}, last {value:.6g}")
    print_texts_and_hparams(plugin_events)

    metrics = folder / "metrics.jsonl"
    if not metrics.exists():
        return 0 if found else 1
    expected = expected_scalars(metrics)
    wrong = [tag for tag in sorted(expected.keys() | found.keys())
             if not same(expected.get(tag, []), found.get(tag, []))]
    wrong += [f"{tag} (plugin reader)" for tag, points in sorted(expected.items())
              if [event.step for event in plugin_events.Tensors(tag)] != [step for step, _ in points]]
    for tag in wrong:
        print(f"wrong    {tag}: not what metrics.jsonl says")
    print("TensorBoard and metrics.jsonl agree" if not wrong else "TensorBoard and metrics.jsonl differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
