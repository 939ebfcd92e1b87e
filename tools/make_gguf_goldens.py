#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/goldens/gguf_blocks.safetensors: blocks of every GGUF type that gradmill reads, and their values
according to the package gguf. Needs gguf, numpy and safetensors."""
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import save_file

ROWS, COLS = 2, 512


def main():
    random = np.random.default_rng(11)
    tensors = {}
    for kind in [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q4_K, Type.Q6_K]:
        values = random.standard_normal((ROWS, COLS), dtype=np.float32)
        if kind in (Type.Q4_K, Type.Q6_K):  # gguf can read but not write these: random blocks with simple scales
            block, size = gguf.GGML_QUANT_SIZES[kind]
            blocks = random.integers(0, 256, (ROWS, COLS // block, size), dtype=np.uint8)
            for begin in (0, 2) if kind == Type.Q4_K else (208,):
                scales = random.uniform(0.001, 0.1, (ROWS, COLS // block, 1)).astype(np.float16)
                blocks[..., begin : begin + 2] = scales.view(np.uint8)
            stored = blocks.reshape(ROWS, -1)
        else:
            stored = gguf.quants.quantize(values, kind)
        tensors[f"{kind.name}.blocks"] = np.ascontiguousarray(stored).view(np.uint8)
        tensors[f"{kind.name}.values"] = gguf.quants.dequantize(stored, kind).astype(np.float32).reshape(ROWS, COLS)
        if kind == Type.Q8_0:
            tensors["Q8_0.source"] = values
    path = Path(__file__).resolve().parent.parent / "tests/goldens/gguf_blocks.safetensors"
    save_file(tensors, path, {"format": "pt"})
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
