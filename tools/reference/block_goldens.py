#!/usr/bin/env python3
"""Writes tests/data/quant/block_float.safetensors: matrices in block floating point as each kind of checkpoint stores them,
and the values that their definitions give, "<matrix>.values" f32 [rows, cols].

Definitions: E2M1, E4M3 and E8M0 of the OCP Microscaling specification v1.0 and OCP FP8 v1.0, written out here in numpy.
Checked here: mlx.core.dequantize agrees for mxfp4, mxfp8 and nvfp4, torch for E4M3.

pip install mlx[cpu]==0.32.4 numpy==2.4.6 torch==2.15.0
"""
import json
import pathlib
import struct

import mlx.core as mx
import numpy as np
import torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "quant" / "block_float.safetensors"
ROWS, COLS = 12, 256


def e2m1(codes):
    exponent, mantissa = (codes >> 1) & 3, codes & 1
    size = np.where(exponent == 0, mantissa * 0.5, (1 + mantissa * 0.5) * 2.0 ** (exponent - 1.0))
    return np.where(codes & 8, -size, size)


def e4m3(codes):
    exponent, mantissa = ((codes >> 3) & 15).astype(np.float64), codes & 7
    size = np.where(exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    return np.where(codes & 128, -size, size)


def nibbles(codes):
    return (codes[:, 0::2] | (codes[:, 1::2] << 4)).astype(np.uint8)


def bf16(values):
    """f32 values rounded to bf16, nearest even."""
    return torch.from_numpy(values.astype(np.float32)).to(torch.bfloat16).to(torch.float32).numpy()


def main():
    rng = np.random.default_rng(9)
    tensors = {}

    def put(name, values, kind, raw=None):
        tensors[name] = (kind, list(values.shape), (raw if raw is not None else values).tobytes())

    fp4 = rng.integers(0, 16, (ROWS, COLS))
    fp8 = rng.integers(0, 256, (ROWS, COLS))
    fp8[(fp8 & 127) == 127] = 0  # NaN
    assert np.array_equal(e4m3(fp8), torch.from_numpy(fp8.astype(np.uint8)).view(torch.float8_e4m3fn).double().numpy())
    power = rng.integers(100, 150, (ROWS, COLS // 32))
    small = rng.integers(1, 127, (ROWS, COLS // 16))  # positive E4M3
    by32, by16 = 2.0 ** (power - 127.0), e4m3(small)

    def mlx_check(codes, scales, group, bits, mode, values):
        words = mx.array(np.ascontiguousarray(codes).view(np.uint32))
        got = mx.dequantize(words, mx.array(scales.astype(np.uint8)), None, group, bits, mode, dtype=mx.float32)
        assert np.array_equal(np.array(got), values), mode

    mxfp4 = (e2m1(fp4) * np.repeat(by32, 32, 1)).astype(np.float32)
    mlx_check(nibbles(fp4), power, 32, 4, "mxfp4", mxfp4)
    put("mxfp4.weight", np.ascontiguousarray(nibbles(fp4)).view(np.uint32), "U32")
    put("mxfp4.scales", power.astype(np.uint8), "U8")
    put("mxfp4.values", mxfp4, "F32")
    put("gpt_oss.blocks", nibbles(fp4).reshape(ROWS, COLS // 32, 16), "U8")
    put("gpt_oss.block_scales", power.astype(np.uint8), "U8")
    put("gpt_oss.values", mxfp4, "F32")
    put("packed_mxfp4.weight_packed", nibbles(fp4), "U8")
    put("packed_mxfp4.weight_scale", power.astype(np.uint8), "U8")
    put("packed_mxfp4.values", mxfp4, "F32")

    mxfp8 = (e4m3(fp8) * np.repeat(by32, 32, 1)).astype(np.float32)
    mlx_check(fp8.astype(np.uint8), power, 32, 8, "mxfp8", mxfp8)
    put("mxfp8.weight", fp8.astype(np.uint8).view(np.uint32), "U32")
    put("mxfp8.scales", power.astype(np.uint8), "U8")
    put("mxfp8.values", mxfp8, "F32")

    nvfp4 = (e2m1(fp4) * np.repeat(by16, 16, 1)).astype(np.float32)
    mlx_check(nibbles(fp4), small, 16, 4, "nvfp4", nvfp4)
    put("nvfp4.weight", np.ascontiguousarray(nibbles(fp4)).view(np.uint32), "U32")
    put("nvfp4.scales", small.astype(np.uint8), "U8")
    put("nvfp4.values", nvfp4, "F32")
    factor = np.float32(0.0123)
    scaled = e2m1(fp4).astype(np.float32) * np.repeat(by16.astype(np.float32) * factor, 16, 1)
    for name, global_name, value in (("modelopt", "weight_scale_2", factor), ("packed_nvfp4", "weight_global_scale", 64.0)):
        codes = "weight" if name == "modelopt" else "weight_packed"
        put(f"{name}.{codes}", nibbles(fp4), "U8")
        put(f"{name}.weight_scale", small, "F8_E4M3", small.astype(np.uint8))
        put(f"{name}.{global_name}", np.array([value], dtype=np.float32), "F32")
    put("modelopt.values", scaled.astype(np.float32), "F32")
    put("packed_nvfp4.values", (nvfp4 / np.float32(64)).astype(np.float32), "F32")

    block = (rng.standard_normal((1, COLS // 128)) * 0.01).astype(np.float32)
    put("fp8.weight", fp8, "F8_E4M3", fp8.astype(np.uint8))
    put("fp8.weight_scale_inv", block, "F32")
    put("fp8.values", e4m3(fp8).astype(np.float32) * np.repeat(block, 128, 1), "F32")

    ternary = rng.integers(-1, 2, (ROWS, COLS))
    packed = sum(((ternary[j * ROWS // 4 : (j + 1) * ROWS // 4] + 1) << (2 * j)) for j in range(4))
    put("bitnet.weight", packed.astype(np.uint8), "U8")
    put("bitnet.weight_scale", np.array([4.0], dtype=np.float32), "F32")
    put("bitnet.values", (ternary / 4.0).astype(np.float32), "F32")

    header, data = {}, b""
    for name, (kind, shape, raw) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    OUT.write_bytes(struct.pack("<Q", len(text)) + text + data)
    print(f"{OUT}: {len(tensors)} tensors, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
