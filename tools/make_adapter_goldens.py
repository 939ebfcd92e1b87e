#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of adapters under tests/goldens/adapters from transformers and peft, in fp32 on the CPU.

<case>/ is a folder saved by peft. <case>.safetensors has the base's parameters under their Hugging Face names,
`input_ids`, `targets` (already shifted; -100 is ignored), `logits`, `loss`, `grad.<tensor of the adapter's file>`, and
`merged.<weight>` for every weight with an adapter. The metadata contains the model's settings as strings.
"""
import argparse
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from peft.utils import get_peft_model_state_dict
from transformers import LlamaForCausalLM

from make_goldens import IGNORED, cross_entropy, gpt2, llama_like, randomise, save


def llama(bias):
    model, about = llama_like("llama", 43, 32, 32, 52, 2, 4, 1, 8, tied=False)
    config = model.config
    config.attention_bias = config.mlp_bias = bias
    return LlamaForCausalLM(config), about | dict(bias=bias)


def gpt2_model():
    model, about = gpt2(37, 24, 24, 2, 3)
    return model, about | dict(bias=True)


LLAMA_ALL = "all-linear"
GPT2_ALL = ["c_attn", "c_proj", "c_fc"]
CASES = {
    "llama_lora": (lambda: llama(False), dict(r=4, lora_alpha=6, target_modules=LLAMA_ALL)),
    "llama_some": (lambda: llama(True), dict(
        r=4, lora_alpha=6, use_rslora=True, target_modules=["q_proj", "v_proj", "up_proj", "down_proj"],
        rank_pattern={"layers.1.self_attn.v_proj": 3, "up_proj": 2}, alpha_pattern={"down_proj": 5},
        exclude_modules=["layers.0.mlp.down_proj"], modules_to_save=["lm_head"])),
    "llama_regex": (lambda: llama(False), dict(
        r=2, lora_alpha=2, target_modules=r".*\.layers\.[1-9]\d*\.(self_attn\.(k|v)_proj|mlp\.gate_.*)")),
    "llama_dora": (lambda: llama(False), dict(r=4, lora_alpha=6, use_dora=True, target_modules=LLAMA_ALL)),
    "llama_dora_bias": (lambda: llama(True), dict(
        r=4, lora_alpha=6, use_dora=True, target_modules=["q_proj", "o_proj", "gate_proj", "down_proj"])),
    "gpt2_lora": (gpt2_model, dict(
        r=4, lora_alpha=6, target_modules=GPT2_ALL, fan_in_fan_out=True, layers_to_transform=[1])),
    "gpt2_dora": (gpt2_model, dict(r=3, lora_alpha=6, use_dora=True, target_modules=GPT2_ALL, fan_in_fan_out=True)),
}


def randomise_adapters(model):
    """Initially B is zero and magnitudes are norms; other values reveal more errors."""
    for name, parameter in model.named_parameters():
        if "lora_magnitude_vector" in name:
            parameter.data *= 1 + 0.2 * torch.randn_like(parameter)
        elif "lora_" in name:
            parameter.data = 0.3 * torch.randn_like(parameter)


def gradients_by_file_name(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.grad.clone()
    return get_peft_model_state_dict(model)


def adapted_weights(model):
    """The names of the base's weights that have adapters, without peft's wrapper names."""
    return {name.removeprefix("base_model.model.").split(".lora_A")[0] + ".weight"
            for name in get_peft_model_state_dict(model) if ".lora_A" in name}


def make_case(folder, name):
    build, settings = CASES[name]
    torch.manual_seed(2)
    base, about = build()
    randomise(base)
    tensors = {key: parameter.detach().clone() for key, parameter in base.named_parameters()}
    if about["tied"]:
        tensors.pop("lm_head.weight", None)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **settings))
    randomise_adapters(model)
    model.train()
    tokens = torch.randint(0, about["vocab"], (3, 14))
    input_ids, targets = tokens[:, :-1], tokens[:, 1:].clone()
    targets[torch.rand(targets.shape) < 0.2] = IGNORED
    logits = model(input_ids=input_ids).logits
    loss = cross_entropy(logits, targets)
    loss.backward()
    model.save_pretrained(folder / name)
    (folder / name / "README.md").unlink(missing_ok=True)
    tensors |= {"input_ids": input_ids.int(), "targets": targets.int(), "logits": logits, "loss": loss.reshape(1)}
    names = adapted_weights(model)
    values = {key: parameter.detach().clone() for key, parameter in model.named_parameters()}
    for key, gradient in gradients_by_file_name(model).items():
        tensors[f"grad.{key}"] = gradient
    for key, parameter in model.named_parameters():
        parameter.data = values[key]
    merged = model.merge_and_unload().state_dict()
    for key in sorted(names):
        tensors[f"merged.{key}"] = merged[key]
    save(folder / f"{name}.safetensors", tensors, about)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="all by default")
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--folder", type=Path, default=root / "tests/goldens/adapters")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.cases or CASES:
        make_case(arguments.folder, name)


if __name__ == "__main__":
    main()
