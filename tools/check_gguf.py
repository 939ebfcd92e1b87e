#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our reading and writing of GGUF files with the package gguf.

    python3 tools/check_gguf.py build/gradmill [MODEL.gguf]

Makes small files with tensors of every type that gradmill reads, exports them as a Hugging Face folder in fp32, and
compares every value with gguf's own dequantisation. Then exports the folder to GGUF again in each type, and reads the
result with gguf. MODEL.gguf is an optional real model for the same checks. Needs the packages gguf, numpy and
safetensors; exits 77 without them, and 1 if anything differs.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import gguf
    import numpy as np
    from gguf import GGMLQuantizationType as Type
    from safetensors.numpy import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TYPES = [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q4_K, Type.Q6_K]
WIDTH, HEADS, KV_HEADS, MLP, VOCAB, LAYERS = 256, 4, 2, 512, 300, len(TYPES)
NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
         "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def stored(values, kind, random):
    """Bytes of a tensor. gguf cannot quantise to the K types, so these get random blocks with sensible scales."""
    if kind not in (Type.Q4_K, Type.Q6_K):
        return gguf.quants.quantize(values, kind)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (values.shape[0], values.shape[1] // block, size), dtype=np.uint8)
    scale = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    if kind == Type.Q4_K:
        blocks[..., 0:2] = blocks[..., 2:4] = scale
    else:
        blocks[..., 208:210] = scale
    return blocks.reshape(values.shape[0], -1)


def make_file(path, architecture):
    """A llama (rotated rows in pairs) or qwen2 (in order); each layer has its own type."""
    random = np.random.default_rng(7)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    tokens = ["<s>", "</s>"] + [chr(c) for c in range(33, 127)] + ["ab", "abc"]
    tokens += [f"[T{i}]" for i in range(VOCAB - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3] + [1] * (VOCAB - 2))
    writer.add_token_merges(["a b", "ab c"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)

    def add(name, shape, kind):
        values = random.standard_normal(shape, dtype=np.float32)
        if len(shape) == 1:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, stored(values, kind, random), raw_dtype=kind)

    add("token_embd.weight", (VOCAB, WIDTH), Type.F16)
    add("output_norm.weight", (WIDTH,), Type.F32)
    add("output.weight", (VOCAB, WIDTH), Type.BF16)
    key_rows = WIDTH // HEADS * KV_HEADS
    for layer, kind in enumerate(TYPES):
        at = f"blk.{layer}."
        add(at + "attn_norm.weight", (WIDTH,), kind)
        add(at + "ffn_norm.weight", (WIDTH,), kind)
        for name, rows, cols in [("attn_q", WIDTH, WIDTH), ("attn_k", key_rows, WIDTH), ("attn_v", key_rows, WIDTH),
                                 ("attn_output", WIDTH, WIDTH), ("ffn_gate", MLP, WIDTH), ("ffn_up", MLP, WIDTH),
                                 ("ffn_down", WIDTH, MLP)]:
            add(f"{at}{name}.weight", (rows, cols), kind)
            if architecture == "qwen2" and name in ("attn_q", "attn_k", "attn_v"):
                add(f"{at}{name}.bias", (rows,), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def hf_name(name):
    module, leaf = name.rsplit(".", 1)
    if not module.startswith("blk."):
        return f"{OUTER[module]}.{leaf}"
    _, layer, rest = module.split(".", 2)
    return f"model.layers.{layer}.{NAMES[rest]}.{leaf}"


def number(reader, key):
    return reader.fields[key].contents()


def expected_tensors(path):
    """Every tensor in transformers' layout by its name there, and how coarse its type is."""
    reader = gguf.GGUFReader(path)
    architecture = number(reader, "general.architecture")
    heads, kv_heads = (number(reader, f"{architecture}.attention.{key}") for key in ("head_count", "head_count_kv"))
    result = {}
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            continue
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape(tuple(reversed(tensor.shape.tolist())))
        if architecture == "llama" and (".attn_q." in tensor.name or ".attn_k." in tensor.name):
            count = heads if ".attn_q." in tensor.name else kv_heads
            values = values.reshape(count, values.shape[0] // count // 2, 2, -1).swapaxes(1, 2).reshape(values.shape)
        result[hf_name(tensor.name)] = (values, tensor.tensor_type)
    return result


def export(binary, *arguments):
    result = subprocess.run([binary, "export", *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"export {arguments}: {result.stderr}")


def check(binary, path, folder):
    wrong = []
    model = folder / "model"
    export(binary, path, "--to", model, "--dtype", "f32")
    files = sorted(model.glob("*.safetensors"))
    found = {name: values for file in files for name, values in load_file(file).items()}
    expected = expected_tensors(path)
    if found.keys() != expected.keys():
        wrong.append(f"other tensors: {sorted(found.keys() ^ expected.keys())[:5]}")
    for name in found.keys() & expected.keys():
        values, kind = expected[name]
        if not np.array_equal(found[name], values):
            wrong.append(f"{name} ({kind.name}): up to {np.abs(found[name] - values).max()} apart")
    for dtype, kind in [("f32", Type.F32), ("f16", Type.F16), ("bf16", Type.BF16), ("q8_0", Type.Q8_0)]:
        written = folder / f"{dtype}.gguf"
        export(binary, model, "--to", written, "--format", "gguf", "--dtype", dtype)
        for name, (values, stored_type) in expected_tensors(written).items():
            original = expected[name][0]
            wanted = kind if original.ndim == 2 else Type.F32
            rounded = gguf.quants.dequantize(gguf.quants.quantize(original, wanted), wanted) if original.ndim == 2 else original
            if stored_type != wanted or not np.array_equal(values, rounded):
                wrong.append(f"{dtype}: {name} is {stored_type.name}, up to {np.abs(values - rounded).max()} apart")
        before, after = gguf.GGUFReader(path), gguf.GGUFReader(written)
        for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.pre",
                    "tokenizer.ggml.model", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.bos_token_id"]:
            if key in before.fields and (key not in after.fields or before.fields[key].contents() != after.fields[key].contents()):
                wrong.append(f"{dtype}: {key} differs")
        written.unlink()
    print(f"{path}: {len(expected)} tensors, " + (f"{len(wrong)} differences" if wrong else "equal both ways"))
    return wrong


def main():
    binary, wrong = sys.argv[1], []
    with tempfile.TemporaryDirectory() as name:
        for architecture in ("llama", "qwen2"):
            folder = Path(name) / architecture
            folder.mkdir()
            make_file(folder / "made.gguf", architecture)
            wrong += check(binary, folder / "made.gguf", folder)
        for index, path in enumerate(sys.argv[2:]):
            folder = Path(name) / str(index)
            folder.mkdir()
            wrong += check(binary, path, folder)
    print("\n".join(wrong[:40]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
