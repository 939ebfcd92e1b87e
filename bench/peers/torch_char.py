#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch peer of `gradmill bench step`: the GPT-2-style character recipes, whole training steps on the CPU.

A step samples a batch, runs forward and backward, clips the gradient and updates with AdamW. Prints one JSON line for
each case and mode: median step time and tokens per second, after warm-up.
"""
import argparse
import json
import statistics
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

VOCAB = 65
NUM_TOKENS = 1_000_000  # about the size of the Shakespeare text


@dataclass(frozen=True)
class Case:
    layers: int
    heads: int
    width: int
    context: int
    batch: int
    steps: int  # timed, unless --steps says otherwise


CASES = {
    "nano": Case(layers=4, heads=4, width=128, context=64, batch=12, steps=200),
    "char": Case(layers=6, heads=6, width=384, context=256, batch=16, steps=10),
}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp_in = nn.Linear(width, 4 * width)
        self.mlp_out = nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, heads, T, head_dim)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attention_out(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp_out(F.gelu(self.mlp_in(self.norm2(x)), approximate="tanh"))


class CharModel(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, case.width)
        self.positions = nn.Embedding(case.context, case.width)
        self.blocks = nn.ModuleList(Block(case.width, case.heads) for _ in range(case.layers))
        self.norm = nn.LayerNorm(case.width)
        self.head = nn.Linear(case.width, VOCAB, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, inputs, targets):
        x = self.tokens(inputs) + self.positions.weight[:inputs.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, VOCAB), targets.reshape(-1))


def sample_batch(data, case):
    """As nanoGPT does it: random starts in one token array."""
    starts = torch.randint(len(data) - case.context, (case.batch,)).tolist()
    windows = np.stack([data[start:start + case.context + 1] for start in starts]).astype(np.int64)
    windows = torch.from_numpy(windows)
    return windows[:, :-1], windows[:, 1:]


def make_optimizer(model):
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)


def time_steps(case, compiled, steps, warmup):
    torch.manual_seed(0)
    data = np.random.default_rng(0).integers(0, VOCAB, NUM_TOKENS, dtype=np.uint16)
    model = CharModel(case)
    optimizer = make_optimizer(model)
    loss_of = torch.compile(model) if compiled else model
    seconds = []
    for _ in range(warmup + steps):
        start = time.perf_counter()
        inputs, targets = sample_batch(data, case)
        loss = loss_of(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[warmup:]), loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--case", choices=[*CASES, "all"], default="all")
    parser.add_argument("--mode", choices=["eager", "compile", "both"], default="both")
    parser.add_argument("--steps", type=int, help="timed steps (default: enough for a stable median)")
    parser.add_argument("--warmup", type=int, default=5, help="steps before the timed ones")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in CASES if arguments.case == "all" else [arguments.case]:
        for mode in ["eager", "compile"] if arguments.mode == "both" else [arguments.mode]:
            case = CASES[name]
            median, loss = time_steps(case, mode == "compile", arguments.steps or case.steps, arguments.warmup)
            print(json.dumps({
                "case": name, "mode": mode, "threads": torch.get_num_threads(), "torch": torch.__version__,
                "step_ms": round(1e3 * median, 3), "tokens_per_s": round(case.batch * case.context / median),
                "loss": round(loss, 4)}), flush=True)


if __name__ == "__main__":
    main()
