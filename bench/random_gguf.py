#!/usr/bin/env python3
"""Writes a GGUF file of a well-known shape with random weights, for measuring speed without a download.

usage: random_gguf.py llama-1b|qwen2-7b Q4_0|Q4_K_M|Q8_0|BF16 OUT.gguf [--layers N]

Needs `pip install gguf numpy`. Blocks are random bytes with scales that keep activations near 1, so every code and sub-scale occurs. Which tensors of
Q4_0 and Q4_K_M have more bits follows llama.cpp's quantizer (output and tied embeddings Q6_K; in Q4_K_M half of the value and down
projections Q6_K). The vocabulary has the right size and made-up words.
"""
import argparse

import gguf
import numpy as np

SHAPES = {
    "llama-1b": dict(arch="llama", layers=16, hidden=2048, ffn=8192, heads=32, kv_heads=8, head_dim=64, vocab=128256, theta=500000.0, eps=1e-5,
                     tied=True, qkv_bias=False, context=131072),
    "qwen2-7b": dict(arch="qwen2", layers=28, hidden=3584, ffn=18944, heads=28, kv_heads=4, head_dim=128, vocab=152064, theta=1000000.0, eps=1e-6,
                     tied=False, qkv_bias=True, context=32768),
}
TYPES = {"Q4_0": gguf.GGMLQuantizationType.Q4_0, "Q8_0": gguf.GGMLQuantizationType.Q8_0, "BF16": gguf.GGMLQuantizationType.BF16,
         "Q4_K": gguf.GGMLQuantizationType.Q4_K, "Q6_K": gguf.GGMLQuantizationType.Q6_K}
FILE_TYPES = {"Q4_0": 2, "Q8_0": 7, "Q4_K_M": 15, "BF16": 32}


def half(values):
    return values.astype("<f2").view(np.uint8).reshape(len(values), 2)


def blocks(rng, kind, rows, cols):
    """Rows of random blocks whose values have a standard deviation of about 1 / sqrt(cols)."""
    deviation = cols ** -0.5
    if kind == "BF16":
        values = rng.standard_normal((rows, cols), dtype=np.float32) * np.float32(deviation)
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(rows, cols * 2)
    size, parts = {  # weights of a block; bytes of the block in order, a number for a scale
        "Q4_0": (32, [deviation / 4.6, 16]),
        "Q8_0": (32, [deviation / 74, 32]),
        "Q4_K": (256, [deviation / 150, deviation / 25, 12, 128]),
        "Q6_K": (256, [128, 64, 16, deviation / 1360]),
    }[kind]
    count = rows * cols // size
    columns = []
    for part in parts:
        if isinstance(part, int):
            columns.append(rng.integers(0, 256, (count, part), dtype=np.uint8))
        else:
            columns.append(half(np.full(count, part, np.float32) * rng.uniform(0.5, 1.5, count).astype(np.float32)))
    return np.concatenate(columns, axis=1).reshape(rows, -1)


def more_bits(layer, layers):
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def kind_of(name, layer, layers, storage):
    if storage in ("Q8_0", "BF16"):
        return storage
    if name in ("token_embd", "output"):
        return "Q6_K" if name == "output" else {"Q4_0": "Q4_0", "Q4_K_M": "Q4_K"}[storage]
    if storage == "Q4_K_M":
        return "Q6_K" if name in ("attn_v", "ffn_down") and more_bits(layer, layers) else "Q4_K"
    return storage


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("storage", choices=FILE_TYPES)
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, help="fewer layers than the shape has")
    args = parser.parse_args()
    s = dict(SHAPES[args.shape])
    s["layers"] = args.layers or s["layers"]
    rng = np.random.default_rng(1)
    w = gguf.GGUFWriter(args.out, s["arch"])
    w.add_name(f"random {args.shape} {args.storage}")
    w.add_file_type(FILE_TYPES[args.storage])
    w.add_block_count(s["layers"])
    w.add_context_length(s["context"])
    w.add_embedding_length(s["hidden"])
    w.add_feed_forward_length(s["ffn"])
    w.add_head_count(s["heads"])
    w.add_head_count_kv(s["kv_heads"])
    w.add_key_length(s["head_dim"])
    w.add_value_length(s["head_dim"])
    w.add_rope_dimension_count(s["head_dim"])
    w.add_rope_freq_base(s["theta"])
    w.add_layer_norm_rms_eps(s["eps"])
    w.add_vocab_size(s["vocab"])
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    kinds = [2, 3, 3] + [6] * 256
    words = s["vocab"] - len(tokens)
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens + [f"\u2581w{i}" for i in range(words)])
    w.add_token_scores([0.0] * len(tokens) + [-float(i) for i in range(words)])
    w.add_token_types(kinds + [1] * words)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)

    def matrix(name, rows, cols, layer=0, prefix=""):
        kind = kind_of(name, layer, s["layers"], args.storage)
        if name == "token_embd" and s["tied"] and args.storage in ("Q4_0", "Q4_K_M"):
            kind = "Q6_K"
        w.add_tensor(f"{prefix}{name}.weight", blocks(rng, kind, rows, cols), raw_dtype=TYPES[kind])

    def vector(name, size, value):
        w.add_tensor(name, np.full(size, value, np.float32))

    q, kv = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
    matrix("token_embd", s["vocab"], s["hidden"])
    for layer in range(s["layers"]):
        p = f"blk.{layer}."
        vector(p + "attn_norm.weight", s["hidden"], 1.0)
        vector(p + "ffn_norm.weight", s["hidden"], 1.0)
        for name, rows, cols in (("attn_q", q, s["hidden"]), ("attn_k", kv, s["hidden"]), ("attn_v", kv, s["hidden"]),
                                 ("attn_output", s["hidden"], q), ("ffn_gate", s["ffn"], s["hidden"]), ("ffn_up", s["ffn"], s["hidden"]),
                                 ("ffn_down", s["hidden"], s["ffn"])):
            matrix(name, rows, cols, layer, p)
            if s["qkv_bias"] and name in ("attn_q", "attn_k", "attn_v"):
                vector(f"{p}{name}.bias", rows, 0.01)
    vector("output_norm.weight", s["hidden"], 1.0)
    if not s["tied"]:
        matrix("output", s["vocab"], s["hidden"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
