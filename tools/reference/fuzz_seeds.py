#!/usr/bin/env python3
"""Writes the seed inputs of fuzz/corpus/{safetensors,gguf,config}: small valid files, so that mutation starts from structure."""
import json
import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parents[2] / "fuzz" / "corpus"


def save(target, name, data):
    (ROOT / target).mkdir(parents=True, exist_ok=True)
    (ROOT / target / name).write_bytes(data)


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def value(key, kind, raw):
    return string(key) + struct.pack("<I", kind) + raw


def gguf(values, tensors, version=3):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)) + b"".join(values)
    data = b""
    for name, kind, dims, raw in tensors:
        out += string(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
        out += struct.pack("<IQ", kind, len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    return out + b"\0" * (-len(out) % 32) + data


def main():
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    two = {"dtype": "U8", "shape": [2, 2], "data_offsets": [8, 12]}
    save("safetensors", "two", safetensors({"__metadata__": {"format": "pt"}, "a": one, "b": two}, bytes(12)))
    save("safetensors", "metadata", safetensors({"__metadata__": {"n": 1, "deep": [[{}]]}}))
    save("safetensors", "empty", safetensors({}))
    save("safetensors", "zero", safetensors({"z": {"dtype": "BF16", "shape": [0, 3], "data_offsets": [0, 0]}}))
    save("safetensors", "overlap", safetensors({"a": one, "b": one}, bytes(8)))
    save("safetensors", "padded", safetensors(json.dumps({"a": one}).encode() + b"   ", bytes(8)))

    u32 = lambda n: struct.pack("<I", n)
    f32 = lambda x: struct.pack("<f", x)
    array = lambda kind, items: u32(kind) + struct.pack("<Q", len(items)) + b"".join(items)
    llama = [
        value("general.architecture", 8, string("llama")),
        value("llama.block_count", 4, u32(1)),
        value("llama.embedding_length", 4, u32(32)),
        value("llama.attention.head_count", 4, u32(2)),
        value("llama.attention.head_count_kv", 9, array(5, [u32(1)])),
        value("llama.rope.freq_base", 6, f32(10000)),
        value("llama.rope.scaling.type", 8, string("yarn")),
        value("llama.rope.scaling.factor", 6, f32(4)),
        value("tokenizer.ggml.tokens", 9, array(8, [string("a"), string("b")])),
        value("tokenizer.ggml.scores", 9, array(6, [f32(0), f32(-1)])),
        value("tokenizer.ggml.token_type", 9, array(5, [u32(1), u32(3)])),
        value("tokenizer.ggml.eos_token_id", 4, u32(1)),
    ]
    save("gguf", "llama", gguf(llama, [
        ("token_embd.weight", 0, [32, 2], bytes(256)),
        ("blk.0.attn_q.weight", 8, [32, 4], b"\1" * 136),
        ("blk.0.attn_q.bias", 0, [4], bytes(16)),
        ("rope_freqs.weight", 0, [2], f32(1) * 2),
    ]))
    sizes = {2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110),
             12: (256, 144), 13: (256, 176), 14: (256, 210)}
    save("gguf", "blocks", gguf([], [(f"t{k}", k, [n, 2], b"\x3c" * (2 * s)) for k, (n, s) in sizes.items()], version=2))
    save("gguf", "scalars", gguf([value(f"k{k}", k, bytes(n)) for k, n in
                                  [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8)]], []))
    save("gguf", "aligned", gguf([value("general.alignment", 4, u32(64)), value("split.count", 2, b"\1\0")], []))

    save("config", "llama", json.dumps({
        "model_type": "llama", "hidden_size": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "eos_token_id": [1, 2],
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
        "quantization": {"group_size": 64, "bits": 4, "mode": "affine", "model.layers.0": {"bits": 8, "group_size": 32},
                         "lm_head": False}}).encode())
    save("config", "nonfinite", b'\xef\xbb\xbf{"a": NaN, "b": [-Infinity], "c": 1e999, "d": "NaN"}')
    save("config", "deep", b'{"a":' + b"[" * 200 + b"]" * 200 + b"}")
    save("config", "numbers", b'{"a": 18446744073709551616, "b": -9223372036854775808, "c": 4096.0, "d": 1e308}')


if __name__ == "__main__":
    main()
