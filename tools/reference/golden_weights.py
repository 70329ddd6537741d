"""Weights of the golden tests, from a seed.

tests/testing/golden_weights.cc makes the same numbers, bit for bit. A number depends only on the
seed, the name of its stream and its index:

    z = splitmix64(seed + fnv1a64(name) + (index + 1) * 0x9E3779B97F4A7C15)
    u = (z >> 40) * 2^-23 - 1             exact in f32, in [-1, 1)

and a dense tensor holds f32(offset + f32(amplitude * u)), rounded to its stored type.
"""

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# ggml block kinds: bytes of a block, values of a block, byte offsets of its f16 fields.
BLOCKS = {
    "q4_0": (18, 32, [0]),
    "q4_1": (20, 32, [0, 2]),
    "q5_0": (22, 32, [0]),
    "q5_1": (24, 32, [0, 2]),
    "q8_0": (34, 32, [0]),
    "q2_K": (84, 256, [80, 82]),
    "q3_K": (110, 256, [108]),
    "q4_K": (144, 256, [0, 2]),
    "q5_K": (176, 256, [0, 2]),
    "q6_K": (210, 256, [208]),
}

# Values of those fields for weights of about the size `amplitude`.
FIELD_SCALES = {
    "q4_0": [1 / 8],
    "q4_1": [2 / 15, -1],
    "q5_0": [1 / 16],
    "q5_1": [2 / 31, -1],
    "q8_0": [1 / 127],
    "q2_K": [2 / 45, 1 / 15],
    "q3_K": [1 / 128],
    "q4_K": [2 / 945, 1 / 63],
    "q5_K": [2 / 1953, 1 / 63],
    "q6_K": [1 / 4096],
}


def fnv1a64(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def bits64(seed, name, count):
    start = np.uint64((seed + fnv1a64(name)) & 0xFFFFFFFFFFFFFFFF)
    with np.errstate(over="ignore"):
        z = start + (np.arange(1, count + 1, dtype=np.uint64)) * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(seed, name, count):
    z = bits64(seed, name, count)
    return (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)


def round_to(values, kind):
    """f32 values rounded to f16, bf16 (nearest even) or f32, as f32."""
    values = values.astype(np.float32)
    if kind == "f16":
        return values.astype(np.float16).astype(np.float32)
    if kind == "bf16":
        u = values.view(np.uint32).astype(np.uint64)
        u = (u + np.uint64(0x7FFF) + ((u >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
        return (u.astype(np.uint32) << np.uint32(16)).view(np.float32)
    assert kind == "f32", kind
    return values


def dense(seed, t):
    u = uniform(seed, t["name"], int(np.prod(t["shape"])))
    values = np.float32(t["offset"]) + np.float32(t["amplitude"]) * u
    return round_to(values, t["kind"]).reshape(t["shape"])


def affine(seed, t):
    """scale * code + bias of random codes, scales and biases, product and sum rounded to f32."""
    cols = t["shape"][-1]
    rows = int(np.prod(t["shape"][:-1]))  # leading dimensions of a stack count as rows
    bits, group = t["bits"], t["group"]
    codes = (bits64(seed, t["name"] + ".codes", rows * cols) >> np.uint64(64 - bits)).astype(np.float32)
    count = rows * cols // group
    middle = np.float32(2**bits - 1) * np.float32(0.5)
    step = np.float32(t["amplitude"]) / middle
    scales = step * (np.float32(1) + np.float32(0.25) * uniform(seed, t["name"] + ".scales", count))
    scales = round_to(scales, t["scale_type"])
    biases = -(scales * middle) * (np.float32(1) + np.float32(0.25) * uniform(seed, t["name"] + ".biases", count))
    biases = round_to(biases, t["scale_type"])
    values = scales[:, None] * codes.reshape(count, group) + biases[:, None]
    return values.astype(np.float32).reshape(t["shape"])


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)


def mxfp4(seed, t):
    """E2M1 values times powers of two, one for 32 inputs (OCP Microscaling v1.0)."""
    count = int(np.prod(t["shape"]))
    codes = (bits64(seed, t["name"] + ".codes", count) >> np.uint64(60)).astype(np.int64)
    values = np.where(codes & 8, -E2M1[codes & 7], E2M1[codes & 7]).astype(np.float32)
    powers = t["exponent"] + (bits64(seed, t["name"] + ".scales", count // 32) >> np.uint64(63)).astype(np.int64)
    scales = np.ldexp(np.float32(1), powers - 127).astype(np.float32)
    return (values.reshape(-1, 32) * scales[:, None]).reshape(t["shape"])


def blocks(seed, t):
    """The bytes of a ggml tensor: random, with f16 fields of the wanted size. [rows, bytes]."""
    rows, cols = t["shape"]
    size, width, offsets = BLOCKS[t["kind"]]
    count = rows * cols // width
    data = (bits64(seed, t["name"] + ".bytes", count * size) >> np.uint64(56)).astype(np.uint8).reshape(count, size)
    for field, (offset, scale) in enumerate(zip(offsets, t["fields"])):
        u = uniform(seed, f"{t['name']}.field{field}", count)
        value = np.float32(scale) * (np.float32(1) + np.float32(0.25) * u)
        data[:, offset : offset + 2] = value.astype("<f2").view(np.uint8).reshape(count, 2)
    return data.reshape(rows, -1)


def tensor(seed, t):
    """The f32 values that a loader must see, [rows, cols] or [n]."""
    if t["kind"] == "affine":
        return affine(seed, t)
    if t["kind"] == "mxfp4":
        return mxfp4(seed, t)
    if t["kind"] in BLOCKS:
        import gguf

        kind = gguf.GGMLQuantizationType[t["kind"].upper()]
        return gguf.quants.dequantize(blocks(seed, t), kind).astype(np.float32)
    return dense(seed, t)
