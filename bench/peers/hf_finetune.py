#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One fine-tuning case with transformers and PEFT on one GPU: bf16 by autocast, fused AdamW, clipping at 1.0.

Warms up (and compiles), then prints {"ready": ...} and waits for a line on its input, so that several can compile at
once and each be timed alone. The last line is one JSON object."""
import argparse
import json
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore")

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from finetune_cases import CASES

LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
WARMUP_STEPS, TIMED_STEPS = 3, 10


def make_model(case):
    config = case.config()
    kind = AutoModelForSequenceClassification if case.classifier else AutoModelForCausalLM
    attention = {} if config.model_type == "deberta-v2" else {"attn_implementation": "sdpa"}
    torch.set_default_dtype(torch.bfloat16 if case.adapter else torch.float32)  # a frozen base needs no fp32
    with torch.device("cuda"):
        model = kind.from_config(config, **attention)
    torch.set_default_dtype(torch.float32)
    if case.adapter:
        model = get_peft_model(model, LoraConfig(
            r=16, lora_alpha=32, use_dora=case.adapter == "dora", target_modules=LINEARS,
            task_type="SEQ_CLS" if case.classifier else "CAUSAL_LM"))
    return model.train()


class Steps:
    def __init__(self, case, compiled):
        self.model = make_model(case)
        self.run = torch.compile(self.model) if compiled else self.model
        self.weights = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.weights, lr=2e-5, fused=True)
        vocab = self.model.config.vocab_size
        self.inputs = {"input_ids": torch.randint(5, vocab - 1, (case.batch, case.tokens), device="cuda")}
        self.inputs["labels"] = self.inputs["input_ids"]
        if case.classifier:
            self.inputs["labels"] = torch.randint(0, 2, (case.batch,), device="cuda")
            self.inputs["attention_mask"] = torch.ones_like(self.inputs["input_ids"])

    def step(self):
        """Seconds."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.run(**self.inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--mode", choices=["eager", "compiled"], default="eager")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    start = time.perf_counter()
    steps = Steps(CASES[arguments.case], arguments.mode == "compiled")
    for _ in range(WARMUP_STEPS):
        steps.step()
    ready = time.perf_counter() - start
    print(json.dumps({"ready": ready}), flush=True)
    sys.stdin.readline()
    torch.cuda.reset_peak_memory_stats()
    seconds = statistics.median(steps.step() for _ in range(TIMED_STEPS))
    print(json.dumps({"step_ms": seconds * 1e3, "memory_bytes": torch.cuda.max_memory_allocated(), "ready_s": ready}))


if __name__ == "__main__":
    main()
