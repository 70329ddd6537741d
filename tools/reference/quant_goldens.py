#!/usr/bin/env python3
"""Writes tests/data/quant: small quantized tensors with the values that reference implementations read from them.

ggml_blocks.gguf       random blocks of every type that is read, "<TYPE>", and gguf-py's dequantized values, "<TYPE>.f32"
                       (gguf 0.19.0, its numpy code).
mlx_affine.safetensors "b<bits>g<group>.weight/.scales/.biases" and ".f32". Codes, scales and biases of groups 32 to 128 come
                       from mlx.core.quantize (mlx 0.32.4, CPU); groups of 16, which mlx does not make, are packed here by the
                       bit-stream definition. Values are float32(scale * code) + bias. Checked here: the definition gives
                       mlx's own codes exactly, and mlx.core.dequantize agrees within one rounding.

pip install gguf==0.19.0 mlx[cpu]==0.32.4 numpy==2.4.6
"""
import json
import pathlib
import struct

import gguf
import mlx.core as mx
import numpy as np
from gguf.quants import dequantize

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "quant"
ROWS = 3

# Byte offsets of the f16 fields inside a block.
HALF_FIELDS = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}


def halves(rng, n):
    """Finite f16 values of many magnitudes, with zeros, subnormals and both signs."""
    values = (rng.standard_normal(n) * 10.0 ** rng.integers(-7, 3, n)).astype(np.float16)
    values[:: 7] = 0
    assert np.isfinite(values).all()
    return values


def ggml_blocks(rng):
    writer = gguf.GGUFWriter(OUT / "ggml_blocks.gguf", "none")
    for name, fields in HALF_FIELDS.items():
        kind = gguf.GGMLQuantizationType[name]
        block, size = gguf.GGML_QUANT_SIZES[kind]
        columns = 512 if block == 256 else 96
        blocks = ROWS * columns // block
        raw = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
        for at in fields:
            raw[:, at:at + 2] = halves(rng, blocks).view(np.uint8).reshape(blocks, 2)
        raw = raw.reshape(ROWS, -1)
        values = dequantize(raw, kind)
        assert values.shape == (ROWS, columns) and values.dtype == np.float32
        writer.add_tensor(name, raw, raw_dtype=kind)
        writer.add_tensor(name + ".f32", values)
    half = halves(rng, ROWS * 32).reshape(ROWS, 32)
    writer.add_tensor("F16", half)
    writer.add_tensor("F16.f32", half.astype(np.float32))
    bits = rng.integers(0, 0x7F80, (ROWS, 32), dtype=np.uint16)
    writer.add_tensor("BF16", bits.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.add_tensor("BF16.f32", dequantize(bits.view(np.uint8), gguf.GGMLQuantizationType.BF16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def unpack(words, bits):
    """Codes of a little-endian bit stream, least significant bit first."""
    stream = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
    codes = stream.reshape(*words.shape[:-1], -1, bits)
    return (codes * (1 << np.arange(bits))).sum(-1).astype(np.uint32)


def pack(codes, bits):
    stream = ((codes[..., None] >> np.arange(bits, dtype=np.uint32)) & 1).astype(np.uint8)
    return np.packbits(stream.reshape(codes.shape[0], -1), axis=-1, bitorder="little").view(np.uint32)


def to_numpy(array):
    return np.array(array.view(mx.uint16)) if array.dtype == mx.bfloat16 else np.array(array)


def f32(array):
    return np.array(array.astype(mx.float32))


def mlx_affine(rng):
    tensors = {}
    kinds = [(mx.float16, "F16"), (mx.bfloat16, "BF16"), (mx.float32, "F32")]
    step = 0
    for bits in (1, 2, 3, 4, 5, 6, 8):
        for group in (16, 32, 64, 128):
            kind, tag = kinds[step % 3]
            step += 1
            name = f"b{bits}g{group}"
            if group == 16:
                codes = rng.integers(0, 1 << bits, (ROWS, 128), dtype=np.uint32)
                words = pack(codes, bits)
                scales, biases = (mx.array(rng.standard_normal((ROWS, 8)).astype(np.float32)).astype(kind)
                                  for _ in range(2))
            else:
                matrix = mx.array(rng.standard_normal((ROWS, 128)).astype(np.float32)).astype(kind)
                packed, scales, biases = mx.quantize(matrix, group_size=group, bits=bits)
                words = np.array(packed)
                codes = unpack(words, bits)
                ones, zeros = mx.ones(scales.shape), mx.zeros(scales.shape)
                exact = mx.dequantize(packed, ones, zeros, group_size=group, bits=bits)
                assert (np.array(exact).astype(np.uint32) == codes).all(), name
            assert (unpack(pack(codes, bits), bits) == codes).all()
            s, b = np.repeat(f32(scales), group, -1), np.repeat(f32(biases), group, -1)
            values = s * codes.astype(np.float32) + b
            if group != 16:
                theirs = mx.dequantize(packed, scales.astype(mx.float32), biases.astype(mx.float32),
                                       group_size=group, bits=bits)
                bound = np.spacing(np.maximum(np.abs(s * codes), np.abs(values)))
                assert (np.abs(np.array(theirs) - values) <= bound).all(), name
            tensors[name + ".weight"] = ("U32", words)
            tensors[name + ".scales"] = (tag, to_numpy(scales))
            tensors[name + ".biases"] = (tag, to_numpy(biases))
            tensors[name + ".f32"] = ("F32", values)
    header, data = {}, b""
    for name, (tag, array) in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": tag, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (OUT / "mlx_affine.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20240917)
    ggml_blocks(rng)
    mlx_affine(rng)


if __name__ == "__main__":
    main()
