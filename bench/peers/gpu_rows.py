# SPDX-License-Identifier: Apache-2.0
"""The rows of the GPU comparison: one model shape and batch each, with what we must reach and what we aim for.

compare_gpu.py runs our case of a row, torch_twin.py builds the same model in PyTorch from its shape.
"""
from dataclasses import dataclass, replace
from math import gcd


@dataclass(frozen=True)
class Shape:
    style: str  # llama: RMSNorm, RoPE, SwiGLU; gpt2: LayerNorm, learned positions, GELU (tanh), bias says whether
    layers: int
    width: int
    heads: int
    kv_heads: int
    mlp_width: int
    vocab: int
    context: int
    qk_norm: bool = False
    qkv_bias: bool = False
    bias: bool = True  # of gpt2's other projections and LayerNorms
    rope_theta: float = 10000.0
    dropout: float = 0.0  # of embeddings, attention weights and both branches, as nanoGPT has it

    @property
    def head_dim(self):
        return self.width // self.heads


@dataclass(frozen=True)
class Reference:
    """A trainer that is not run here: what it reached on one H200, and our ratio to it."""
    name: str
    tokens_per_second: int
    must: float
    aim: float


@dataclass(frozen=True)
class Row:
    case: str  # of `gradmill bench step`
    shape: Shape
    batch: int
    micro_batch: int
    steps: int = 12  # timed
    beta2: float = 0.95
    must: float | None = None  # our tokens/s over the twin's
    aim: float | None = None
    modes: tuple[str, ...] = ("default",)  # of torch.compile
    reference: Reference | None = None
    floor: tuple[str, int] | None = None  # model and batch in the floor's output

    @property
    def overrides(self):
        return [f"training.batch_size={self.batch}", f"training.micro_batch_size={self.micro_batch}"]


MEMORY_MUST = 0.8  # our memory over the twin's, at most

LLAMA_176M = Shape("llama", layers=24, width=768, heads=12, kv_heads=4, mlp_width=2048, vocab=32768, context=2048,
                   qk_norm=True)
LLAMA_1B = Shape("llama", layers=22, width=2048, heads=32, kv_heads=4, mlp_width=5632, vocab=32768, context=2048,
                 qk_norm=True)
QWEN_05B = Shape("llama", layers=24, width=896, heads=14, kv_heads=2, mlp_width=4864, vocab=151936, context=1024,
                 qkv_bias=True, rope_theta=1e6)
GPT2_124M = Shape("gpt2", layers=12, width=768, heads=12, kv_heads=12, mlp_width=3072, vocab=50304, context=1024,
                  qkv_bias=True)
CHARACTERS = Shape("gpt2", layers=6, width=384, heads=6, kv_heads=6, mlp_width=1536, vocab=65, context=256,
                   bias=False, dropout=0.2)

ROWS = {
    "176m-accum": Row("176m", LLAMA_176M, batch=96, micro_batch=8, must=1.15, aim=1.30),
    "176m-32": Row("176m", LLAMA_176M, batch=32, micro_batch=32, must=1.08, aim=1.20, floor=("176m", 32)),
    "176m-8": Row("176m", LLAMA_176M, batch=8, micro_batch=8, steps=24, floor=("176m", 8)),
    "gpt2": Row("gpt2-124m", GPT2_124M, batch=64, micro_batch=64, must=1.12, aim=1.25,
                reference=Reference("llm.c", 565_502, must=1.0, aim=1.12)),
    "1b": Row("llama-1b", LLAMA_1B, batch=16, micro_batch=16, must=1.06, aim=1.15, floor=("1.04b", 16)),
    "qwen": Row("qwen2.5-0.5b", QWEN_05B, batch=128, micro_batch=32,
                reference=Reference("llmq", 152_943, must=1.1, aim=1.25)),
    # Steps of milliseconds: many of them, and CUDA graphs matter.
    "char": Row("char-gpu", CHARACTERS, batch=64, micro_batch=64, steps=200, beta2=0.99, must=2.0, aim=3.0,
                modes=("default", "reduce-overhead")),
}


def shrunk(row):
    """The same row small enough for a quick check on a CPU: its structure stays, its sizes do not."""
    shape = row.shape
    group = gcd(shape.heads, shape.kv_heads)
    heads, kv_heads = 2 * shape.heads // group, 2 * shape.kv_heads // group
    small = replace(shape, layers=2, heads=heads, kv_heads=kv_heads, width=8 * heads, mlp_width=24 * heads, vocab=97,
                    context=16)
    micro_batches = min(row.batch // row.micro_batch, 3)
    return replace(row, shape=small, batch=2 * micro_batches, micro_batch=2, steps=3)
