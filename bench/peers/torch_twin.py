#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch twin of one row of the GPU comparison: whole training steps under torch.compile on one GPU.

A step draws its batch, runs forward and backward for each micro-batch (bf16 by autocast), clips the gradient and
updates with the fused AdamW. Steps are timed by events on the GPU, so the host may run ahead as it does in a real loop.
The last line is one JSON object.
"""
import time

START = time.perf_counter()  # before the imports: they are part of what a user waits for

import argparse
import json
import statistics
import subprocess

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_rows import ROWS, shrunk
from twin_models import Decoder

MODES = ["default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune", "eager"]
# In "both", torch takes the first of its own order that can run; on Hopper that is cuDNN's.
BACKENDS = {"both": [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], "cudnn": [SDPBackend.CUDNN_ATTENTION],
            "flash": [SDPBackend.FLASH_ATTENTION]}
WARMUP_STEPS = 4  # compiles, records CUDA graphs, and ends with one step whose time chooses the number of timed ones
MIN_STEPS = 5
NUM_TOKENS = 1_000_000


def driver_used_bytes():
    """What the driver counts as used on the GPU by everyone together; None where it cannot be asked."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) << 20
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def driver_bytes_since(used_before):
    """What this process added to that. Without nvidia-smi: all that is used now, for nothing else should run."""
    used_after = driver_used_bytes()
    if used_before is not None and used_after is not None:
        return used_after - used_before
    free, total = torch.cuda.mem_get_info()
    return total - free


class Twin:
    """The model, its optimizer and its data, ready to step."""

    def __init__(self, row, arguments, device):
        self.row, self.device = row, device
        # Graphs overwrite their outputs, gradients too, when they run again: then sums need memory of their own.
        self.graphs = arguments.mode in ("reduce-overhead", "max-autotune")
        self.keep_gradients = self.graphs and row.batch > row.micro_batch
        with torch.device(device):
            self.model = Decoder(row.shape, getattr(torch, arguments.residual))
            self.tokens = torch.randint(row.shape.vocab, (NUM_TOKENS,))
            self.offsets = torch.arange(row.shape.context + 1)
        self.loss_of = self.model
        if arguments.mode != "eager":
            # No graph breaks, no dynamic shapes: a twin that silently falls back to eager parts would be no twin.
            self.loss_of = torch.compile(self.model, mode=arguments.mode, fullgraph=True, dynamic=False)
        parameters = list(self.model.parameters())
        groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, row.beta2), fused=True)
        if self.keep_gradients:
            for parameter in parameters:
                parameter.grad = torch.zeros_like(parameter)

    def num_parameters(self):
        return sum(parameter.numel() for parameter in self.model.parameters())

    def draw(self):
        """Random windows of one token array, as nanoGPT draws them; on the GPU, where it costs the twin least."""
        starts = torch.randint(NUM_TOKENS - self.row.shape.context, (self.row.micro_batch, 1), device=self.device)
        windows = self.tokens[starts + self.offsets]
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()

    def step(self):
        """One update; returns the mean loss, still on the GPU."""
        micro_batches = self.row.batch // self.row.micro_batch
        total = torch.zeros((), device=self.device)
        for _ in range(micro_batches):
            inputs, targets = self.draw()
            if self.graphs:
                torch.compiler.cudagraph_mark_step_begin()
            with torch.autocast(self.device, torch.bfloat16):
                loss = self.loss_of(inputs, targets)
            (loss / micro_batches).backward()
            total += loss.detach() / micro_batches
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=not self.keep_gradients)
        return total


def timed_steps(twin, num_steps):
    """Milliseconds of each step and the last loss. The host waits once, at the end."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(num_steps + 1)]
    events[0].record()
    for event in events[1:]:
        loss = twin.step()
        event.record()
    torch.cuda.synchronize()
    return [first.elapsed_time(second) for first, second in zip(events, events[1:])], loss


def profiled_step(twin):
    """Kernel names of one step with their milliseconds, the slowest first."""
    activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profile:
        twin.step()
        torch.cuda.synchronize()
    kernels = [(average.key, average.self_device_time_total / 1e3) for average in profile.key_averages()
               if average.device_type == torch.autograd.DeviceType.CUDA]
    return sorted(kernels, key=lambda kernel: -kernel[1])


def attention_kernels(kernels):
    return [name for name, _ in kernels if any(part in name.lower() for part in ("sdpa", "flash", "fmha"))]


def profile_of(twin):
    """Never costs the times already measured: a profiler that cannot run says so in the result."""
    try:
        kernels = profiled_step(twin)
    except RuntimeError as error:
        return {"profile_error": str(error)}
    return {"attention_kernels": attention_kernels(kernels), "kernels_ms": dict(kernels[:40])}


def run_on_gpu(row, arguments):
    used_before = driver_used_bytes()
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    twin = Twin(row, arguments, "cuda")
    with sdpa_kernel(BACKENDS[arguments.attention]):
        twin.step()
        torch.cuda.synchronize()
        first_step = time.perf_counter() - START
        for _ in range(WARMUP_STEPS - 2):
            twin.step()
        torch.cuda.synchronize()
        start = time.perf_counter()
        twin.step()
        torch.cuda.synchronize()
        affordable = int(arguments.budget / (time.perf_counter() - start))
        torch.cuda.reset_peak_memory_stats()
        setup = time.perf_counter() - START
        times, loss = timed_steps(twin, min(arguments.steps or row.steps, max(MIN_STEPS, affordable)))
        result = {
            "step_ms": statistics.median(times), "fastest_ms": min(times), "slowest_ms": max(times),
            "steps": len(times), "parameters": twin.num_parameters(), "first_step_s": first_step, "setup_s": setup,
            "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
            "peak_reserved_bytes": torch.cuda.max_memory_reserved(), "loss": loss.item(),
            "gpu": torch.cuda.get_device_name()}
        result["driver_bytes"] = driver_bytes_since(used_before)
        if arguments.profile:
            result |= profile_of(twin)
    return result


def run_small_on_cpu(row, arguments):
    """Whether the model and the loop work at all: a few steps of a shrunk row, nothing compiled."""
    torch.manual_seed(0)
    twin = Twin(row, arguments, "cpu")
    start = time.perf_counter()
    losses = [twin.step().item() for _ in range(row.steps)]
    milliseconds = (time.perf_counter() - start) / row.steps * 1e3
    without = [name for name, value in twin.model.named_parameters() if not twin.optimizer.state[value]]
    if without:
        raise RuntimeError(f"no gradient reached {without}")
    return {"smoke": True, "step_ms": milliseconds, "parameters": twin.num_parameters(), "loss": losses[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", choices=list(ROWS), required=True)
    parser.add_argument("--mode", choices=MODES, default="default", help="of torch.compile")
    parser.add_argument("--attention", choices=list(BACKENDS), default="both", help="what torch may choose from")
    parser.add_argument("--residual", choices=["float32", "bfloat16"], default="float32",
                        help="the residual stream's type; float32 is what autocast makes of it")
    parser.add_argument("--steps", type=int, help="timed steps (default: the row's)")
    parser.add_argument("--budget", type=float, default=15, help="seconds for the timed steps")
    parser.add_argument("--profile", action="store_true", help="profile one more step: kernel names, times")
    parser.add_argument("--smoke", action="store_true", help="a shrunk model on the CPU, not compiled")
    arguments = parser.parse_args()
    row = ROWS[arguments.row]
    if arguments.smoke:
        arguments.mode, row = "eager", shrunk(row)
    result = run_small_on_cpu(row, arguments) if arguments.smoke else run_on_gpu(row, arguments)
    tokens = row.batch * row.shape.context
    print(json.dumps({"row": arguments.row, "mode": arguments.mode, "attention": arguments.attention,
                      "residual": arguments.residual, "torch": torch.__version__,
                      "tokens_per_s": tokens / result["step_ms"] * 1e3} | result), flush=True)


if __name__ == "__main__":
    main()
