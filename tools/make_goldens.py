#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden files under tests/goldens from Hugging Face transformers, in fp32 on the CPU.

Without arguments: one file per model, <name>.safetensors, with every parameter under its Hugging Face name, `input_ids`
and `targets` (already shifted; -100 is ignored), `logits`, `loss` (mean over the targets that count) and
`grad.<parameter>`. With --curve: curve_<name>.safetensors, a short training run: `init.<parameter>`,
`final.<parameter>`, `tokens` and `targets` (steps, B, T), and for each step `losses`, `grad_norms` (before clipping)
and `learning_rates`. Every file's metadata contains the model's (and the run's) settings as strings.
"""
import argparse
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

IGNORED = -100


def gpt2(vocab, context, width, layers, heads, init_std=0.02):
    config = GPT2Config(
        vocab_size=vocab, n_positions=context, n_embd=width, n_layer=layers, n_head=heads,
        activation_function="gelu_new", layer_norm_epsilon=1e-5, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        initializer_range=init_std, bos_token_id=0, eos_token_id=0, attn_implementation="eager")
    about = dict(
        family="gpt2", vocab=vocab, context=context, width=width, layers=layers, heads=heads, kv_heads=heads,
        head_dim=width // heads, intermediate=4 * width, activation="gelu_new", norm_eps=1e-5, tied=True)
    return GPT2LMHeadModel(config), about


def llama_like(family, vocab, context, width, intermediate, layers, heads, kv_heads, head_dim, tied, init_std=0.02):
    config_class, model_class = {
        "llama": (LlamaConfig, LlamaForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}[family]
    config = config_class(
        vocab_size=vocab, max_position_embeddings=context, hidden_size=width, intermediate_size=intermediate,
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim,
        hidden_act="silu", rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        attention_bias=False, attention_dropout=0.0, tie_word_embeddings=tied, initializer_range=init_std,
        bos_token_id=0, eos_token_id=0, attn_implementation="eager")
    about = dict(
        family=family, vocab=vocab, context=context, width=width, layers=layers, heads=heads, kv_heads=kv_heads,
        head_dim=head_dim, intermediate=intermediate, activation="silu", norm_eps=1e-6, rope_theta=10000.0,
        qk_norm=family == "qwen3", tied=tied)
    return model_class(config), about


# Odd sizes throughout, and a sequence shorter than the context.
MODELS = {
    "gpt2": (lambda: gpt2(37, 24, 24, 2, 3), 11),
    "qwen3": (lambda: llama_like("qwen3", 41, 32, 32, 48, 2, 4, 2, 16, tied=True), 13),
    "qwen3_untied": (lambda: llama_like("qwen3", 41, 32, 32, 48, 2, 4, 2, 16, tied=False), 13),
    "llama_gqa": (lambda: llama_like("llama", 43, 32, 32, 52, 2, 4, 1, 8, tied=False), 15),
}

CURVES = {
    "curve_gpt2": lambda: gpt2(31, 16, 16, 2, 2, init_std=0.1),
    "curve_qwen3": lambda: llama_like("qwen3", 31, 16, 16, 32, 2, 2, 1, 8, tied=True, init_std=0.1),
}


def randomise(model):
    """Gives every parameter random values, because the zeros and ones of the usual initialisation would hide mistakes."""
    for name, parameter in model.named_parameters():
        noise = torch.randn_like(parameter)
        if parameter.dim() == 1:
            parameter.data = 0.2 * noise + (0.0 if name.endswith("bias") else 1.0)
        elif any(part in name for part in ("wte", "wpe", "embed_tokens")):
            parameter.data = 0.4 * noise
        else:
            parameter.data = noise / math.sqrt(model.config.hidden_size)


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def sort_metadata(path):
    """Sorts the metadata, which the library writes in random order, so that equal goldens have equal bytes."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode().ljust(size)
    assert len(text) == size
    path.write_bytes(content[:8] + text + content[8 + size:])


def save(path, tensors, about, config=None):
    tensors = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    metadata = {"format": "pt"} | {key: str(value).lower() for key, value in about.items()}
    if config is not None:
        metadata["config"] = config
    save_file(tensors, path, metadata)
    sort_metadata(path)
    path.chmod(0o644)
    print(f"{path}: {len(tensors)} tensors, {path.stat().st_size} bytes")


def make_golden(folder, name, build, length, batch=3):
    torch.manual_seed(1)
    model, about = build()
    model.eval()
    randomise(model)
    tokens = torch.randint(0, about["vocab"], (batch, length + 1))
    input_ids, targets = tokens[:, :-1], tokens[:, 1:].clone()
    targets[torch.rand(targets.shape) < 0.2] = IGNORED
    targets[0, 0] = targets[-1, -1] = IGNORED
    logits = model(input_ids=input_ids).logits
    loss = cross_entropy(logits, targets)
    loss.backward()

    tensors = {"input_ids": input_ids.int(), "targets": targets.int(), "logits": logits, "loss": loss.reshape(1)}
    for key, parameter in model.named_parameters():
        tensors[key] = parameter
        tensors[f"grad.{key}"] = parameter.grad
    save(folder / f"{name}.safetensors", tensors, about)


RUN = dict(
    steps=100, batch=5, warmup=10, lr=3e-3, min_lr=3e-4, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, clip=1.0)


def learning_rate(step):
    if step < RUN["warmup"]:
        return RUN["lr"] * (step + 1) / RUN["warmup"]
    done = (step - RUN["warmup"]) / (RUN["steps"] - RUN["warmup"])
    return RUN["min_lr"] + 0.5 * (RUN["lr"] - RUN["min_lr"]) * (1 + math.cos(math.pi * done))


def learnable_tokens(vocab, shape):
    """A noisy walk: mostly the successor 7 t + 3, sometimes any token, so that there is something to learn."""
    tokens = torch.randint(0, vocab, shape)
    for t in range(1, shape[-1]):
        follow = torch.rand(shape[:-1]) < 0.8
        tokens[..., t] = torch.where(follow, (7 * tokens[..., t - 1] + 3) % vocab, tokens[..., t])
    return tokens


def adamw(model):
    """Weight decay for matrices (including embeddings), none for norms and biases."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": RUN["weight_decay"]},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(
        groups, lr=RUN["lr"], betas=(RUN["beta1"], RUN["beta2"]), eps=RUN["eps"], foreach=False, fused=False)


def make_curve(folder, name, build):
    torch.manual_seed(2)
    model, about = build()
    model.train()  # without dropout this is the same function as in eval mode
    walk = learnable_tokens(about["vocab"], (RUN["steps"], RUN["batch"], about["context"] + 1))
    tokens, targets = walk[..., :-1], walk[..., 1:]
    tensors = {"tokens": tokens.int(), "targets": targets.int()}
    tensors |= {f"init.{key}": parameter.detach().clone() for key, parameter in model.named_parameters()}

    optimizer = adamw(model)
    history = {"losses": [], "grad_norms": [], "learning_rates": []}
    for step in range(RUN["steps"]):
        rate = learning_rate(step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        loss = cross_entropy(model(input_ids=tokens[step]).logits, targets[step])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), RUN["clip"])
        optimizer.step()
        for key, value in zip(history, (loss.item(), norm.item(), rate)):
            history[key].append(value)

    tensors |= {key: torch.tensor(values, dtype=torch.float32) for key, values in history.items()}
    tensors |= {f"final.{key}": parameter for key, parameter in model.named_parameters()}
    save(folder / f"{name}.safetensors", tensors, about | RUN)
    print(f"  loss {history['losses'][0]:.4f} -> {history['losses'][-1]:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curve", action="store_true", help="make the training curves instead of the models")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent / "tests" / "goldens")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # makes the order of every sum, and so every bit, the same in each run
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.curve:
        for name, build in CURVES.items():
            make_curve(arguments.out, name, build)
    else:
        for name, (build, length) in MODELS.items():
            make_golden(arguments.out, name, build, length)


if __name__ == "__main__":
    main()
