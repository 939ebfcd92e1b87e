# SPDX-License-Identifier: Apache-2.0
"""Our decoders in plain PyTorch, written for torch.compile: joined projections, float32 weights, bf16 by autocast."""
import torch
from torch import nn
from torch.nn import functional as F


class RmsNorm(nn.Module):
    """Its own few lines, so that the compiler fuses them with what stands around them."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate(x, cos, sin):
    """Rotary positions over halves; x is (B, T, H, D), cos and sin are (T, 1, D / 2)."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        head_dim, out_bias = shape.head_dim, shape.style == "gpt2" and shape.bias
        self.qkv = nn.Linear(shape.width, (shape.heads + 2 * shape.kv_heads) * head_dim, bias=shape.qkv_bias)
        self.out = nn.Linear(shape.heads * head_dim, shape.width, bias=out_bias)
        self.q_norm = RmsNorm(head_dim) if shape.qk_norm else nn.Identity()
        self.k_norm = RmsNorm(head_dim) if shape.qk_norm else nn.Identity()

    def forward(self, x, rotation):
        shape = self.shape
        heads, kv_heads = shape.heads, shape.kv_heads
        qkv = self.qkv(x).unflatten(-1, (heads + 2 * kv_heads, shape.head_dim))
        q, k, v = qkv.split([heads, kv_heads, kv_heads], dim=2)  # each (B, T, its heads, D)
        q, k = self.q_norm(q), self.k_norm(k)
        if rotation is not None:
            q, k = rotate(q, *rotation), rotate(k, *rotation)
        q, k, v = (part.to(v.dtype).transpose(1, 2) for part in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads,
                                           dropout_p=shape.dropout if self.training else 0.0)
        return self.out(y.transpose(1, 2).flatten(2))


class SwiGlu(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate_up = nn.Linear(shape.width, 2 * shape.mlp_width, bias=False)
        self.down = nn.Linear(shape.mlp_width, shape.width, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class GeluMlp(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.up = nn.Linear(shape.width, shape.mlp_width, bias=shape.bias)
        self.down = nn.Linear(shape.mlp_width, shape.width, bias=shape.bias)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))


def make_norm(shape):
    return nn.LayerNorm(shape.width, bias=shape.bias) if shape.style == "gpt2" else RmsNorm(shape.width)


def make_dropout(shape):
    return nn.Dropout(shape.dropout) if shape.dropout else nn.Identity()


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.norm1, self.norm2 = make_norm(shape), make_norm(shape)
        self.attention = Attention(shape)
        self.mlp = GeluMlp(shape) if shape.style == "gpt2" else SwiGlu(shape)
        self.dropout = make_dropout(shape)

    def forward(self, x, rotation):
        x = x + self.dropout(self.attention(self.norm1(x), rotation))
        return x + self.dropout(self.mlp(self.norm2(x)))


class Decoder(nn.Module):
    """From token ids and targets to the mean loss; the head shares the embedding's weights."""

    def __init__(self, shape, residual=torch.float32):
        super().__init__()
        self.shape, self.residual = shape, residual
        self.tokens = nn.Embedding(shape.vocab, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width) if shape.style == "gpt2" else None
        self.dropout = make_dropout(shape)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = make_norm(shape)
        if shape.style == "llama":
            frequencies = shape.rope_theta ** -(torch.arange(0, shape.head_dim, 2) / shape.head_dim)
            angles = torch.outer(torch.arange(shape.context).float(), frequencies)[:, None]
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, inputs, targets):
        x = self.tokens(inputs)
        if self.positions is not None:
            x = x + self.positions.weight
        x = self.dropout(x).to(self.residual)
        rotation = (self.cos, self.sin) if self.shape.style == "llama" else None
        for block in self.blocks:
            x = block(x, rotation)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
