#!/usr/bin/env python3
"""Writes a checkpoint with random weights in the shape of a published model, for measurements.

  make_random_model.py <shape> <type> <folder>

shape: 8b (Llama 3.1 8B) or 1b (Llama 3.2 1B); type: bf16, or q<bits>g<group> (MLX affine groups, for example q4g64).
Random bytes are drawn once (64 MiB) and reused from shifting offsets: the values matter to nobody, their spread does.
"""
import json
import pathlib
import re
import struct
import sys

import numpy as np

SHAPES = {
    "8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
               num_key_value_heads=8, head_dim=128, vocab_size=128256, tie_word_embeddings=False),
    "1b": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
               num_key_value_heads=8, head_dim=64, vocab_size=128256, tie_word_embeddings=True),
}


def bf16(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()


def repeated(block, size, offset):
    """`size` bytes of `block`, read round from `offset`."""
    offset %= len(block) // 2
    offset -= offset % 4096
    parts = []
    while size > 0:
        part = memoryview(block)[offset:offset + size]
        parts.append(part)
        size -= len(part)
        offset = 0
    return parts


def main():
    shape, kind, folder = SHAPES[sys.argv[1]], sys.argv[2], pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    quant = re.fullmatch(r"q(\d)g(\d+)", kind)
    codes = rng.integers(0, 2**32, 1 << 24, dtype=np.uint32).tobytes()
    weights = bf16(rng.standard_normal(1 << 25) * 0.02)
    ones = bf16(np.ones(1 << 16))
    config = dict(shape, model_type="llama", architectures=["LlamaForCausalLM"], hidden_act="silu", rms_norm_eps=1e-5,
                  rope_theta=500000.0, max_position_embeddings=131072, attention_bias=False, mlp_bias=False,
                  torch_dtype="bfloat16", bos_token_id=128000, eos_token_id=128001)
    tensors = []  # name, dtype, shape, parts
    if quant:
        bits, group = int(quant[1]), int(quant[2])
        config["quantization"] = dict(bits=bits, group_size=group)
        scale = 0.02 / (1 << bits) * 4
        scales = bf16(rng.uniform(0.8, 1.2, 1 << 22) * scale)
        biases = bf16(rng.uniform(0.9, 1.1, 1 << 22) * -scale * (1 << (bits - 1)))

    def matrix(name, rows, cols):
        at = len(tensors) * 1234567
        if not quant:
            tensors.append((name + ".weight", "BF16", [rows, cols], repeated(weights, rows * cols * 2, at)))
            return
        tensors.append((name + ".weight", "U32", [rows, cols * bits // 32], repeated(codes, rows * cols * bits // 8, at)))
        for part, source in (("scales", scales), ("biases", biases)):
            tensors.append((f"{name}.{part}", "BF16", [rows, cols // group],
                            repeated(source, rows * cols // group * 2, at)))

    def vector(name, size):
        tensors.append((name + ".weight", "BF16", [size], [ones[:size * 2]]))

    h, f, d = shape["hidden_size"], shape["intermediate_size"], shape["head_dim"]
    q, kv = shape["num_attention_heads"] * d, shape["num_key_value_heads"] * d
    matrix("model.embed_tokens", shape["vocab_size"], h)
    for i in range(shape["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        vector(layer + ".input_layernorm", h)
        vector(layer + ".post_attention_layernorm", h)
        for name, rows, cols in (("self_attn.q_proj", q, h), ("self_attn.k_proj", kv, h), ("self_attn.v_proj", kv, h),
                                 ("self_attn.o_proj", h, q), ("mlp.gate_proj", f, h), ("mlp.up_proj", f, h),
                                 ("mlp.down_proj", h, f)):
            matrix(f"{layer}.{name}", rows, cols)
    vector("model.norm", h)
    if not shape["tie_word_embeddings"]:
        matrix("lm_head", shape["vocab_size"], h)
    header, at = {}, 0
    for name, dtype, dims, parts in tensors:
        size = sum(len(p) for p in parts)
        header[name] = dict(dtype=dtype, shape=dims, data_offsets=[at, at + size])
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, _, parts in tensors:
            for part in parts:
                out.write(part)
    (folder / "config.json").write_text(json.dumps(config, indent=1))


main()
