"""Golden cases of mixture-of-experts families: like golden_text.py, whose format it writes, but the
tensors of a checkpoint are named as files have them (an entry for each expert, or MLX's stacks),
while transformers holds the experts of a layer in one parameter.

    python tools/reference/golden_moe.py [family[/variant] ...]
"""

import json
import os
import re
import sys
import tempfile

import golden_text as text
import golden_weights
import numpy as np
import torch
import transformers
from golden_moe_variants import CORRECTION, FAMILIES, MOE_BASE, NAMES, VARIANTS
from golden_variants import ABSENT
from golden_weights import fnv1a64
from transformers import AutoConfig, AutoModelForCausalLM


def build(config):
    """The reference of a config, without what only the loader under test reads."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({k: v for k, v in config.items() if not k.startswith("quantization")}, f)
        c = AutoConfig.from_pretrained(folder)
    return AutoModelForCausalLM.from_config(c, attn_implementation="eager", dtype=torch.float32).eval()


def parts_of(family, name, shape, layout):
    """The checkpoint's tensors behind one parameter of the reference: [(name, shape)], and how to
    put them together again."""
    names = NAMES.get(family, {})
    for pattern, to in names.get("rename", {}).items():
        if layout != "mlx" or "experts" not in pattern:
            name = re.sub(pattern, to, name)
    stem, _, leaf = name.rpartition(".")
    if family == "gpt_oss" and leaf.endswith("_bias"):
        return gpt_oss_bias(name, shape, layout)
    gate, up, down = names.get("experts", ("gate_proj", "up_proj", "down_proj"))
    if leaf not in ("gate_up_proj", "down_proj") or not stem.endswith("experts") or layout == "as_is":
        return [(name, shape)], lambda t: t[0]
    if family == "gpt_oss":
        return gpt_oss_parts(stem, leaf, shape, layout)
    experts, out, width = shape
    half = out // 2
    if layout == "mlx":
        stack = stem.removesuffix("experts") + "switch_mlp."
        if leaf == "down_proj":
            return [(f"{stack}down_proj.weight", shape)], lambda t: t[0]
        pair = [(f"{stack}{n}.weight", (experts, half, width)) for n in ("gate_proj", "up_proj")]
        return pair, lambda t: np.concatenate(t, axis=1)
    if leaf == "down_proj":
        return [(f"{stem}.{e}.{down}.weight", (out, width)) for e in range(experts)], np.stack
    pairs = [(f"{stem}.{e}.{n}.weight", (half, width)) for e in range(experts) for n in (gate, up)]
    return pairs, lambda t: np.stack([np.concatenate(t[2 * e : 2 * e + 2]) for e in range(experts)])


def gpt_oss_parts(stem, leaf, shape, layout):
    """Its parameters are [E, in, out], gate and up in alternating columns; "mxfp4" and MLX store [E, out, in]."""
    experts, width, out = shape
    turn = lambda t: np.ascontiguousarray(t[0].transpose(0, 2, 1))
    if layout == "mxfp4":
        return [(f"{stem}.{leaf}", (experts, out, width))], turn
    if leaf == "down_proj":
        return [(f"{stem}.down_proj.weight", (experts, out, width))], turn
    pair = [(f"{stem}.{n}.weight", (experts, out // 2, width)) for n in ("gate_proj", "up_proj")]

    def alternate(t):
        both = np.stack(t, axis=2).reshape(experts, out, width)
        return np.ascontiguousarray(both.transpose(0, 2, 1))

    return pair, alternate


def gpt_oss_bias(name, shape, layout):
    if layout != "mlx" or not name.endswith("gate_up_proj_bias"):
        return [(name.replace("_bias", ".bias") if layout == "mlx" else name, shape)], lambda t: t[0]
    stem = name.removesuffix("gate_up_proj_bias")
    pair = [(f"{stem}{n}.bias", (shape[0], shape[1] // 2)) for n in ("gate_proj", "up_proj")]
    return pair, lambda t: np.stack(t, axis=2).reshape(shape)


def describe(name, shape, storage, tied):
    t = text.describe(name, shape, storage, tied)
    if re.search(CORRECTION, name):
        # Selection biases as large as the differences between scores.
        t.update(kind="f32", amplitude=0.2, offset=0.0)
        for key in ("bits", "group", "scale_type", "fields"):
            t.pop(key, None)
    if storage["kind"] in ("mxfp4", "mxfp4_mlx"):
        t["kind"] = "f32"
        if re.search(r"experts\.\w+_proj(\.weight)?$", name):
            power = int(np.floor(np.log2(1.7 / np.sqrt(shape[-1]) / 4)))
            return {"name": name, "shape": list(shape), "kind": "mxfp4", "offset": 0.0, "amplitude": 0.0,
                    "exponent": 127 + power}
    if re.search(r"proj_?\.?bias$", name) and len(shape) == 2:
        t.update(kind="f32", amplitude=0.25)
        return {k: v for k, v in t.items() if k not in ("bits", "group", "scale_type", "fields")}
    if name.endswith("sinks"):
        t.update(kind="f32", amplitude=2.0)
    if len(shape) > 2:
        t["amplitude"] = round(1.7 / np.sqrt(shape[-1]).item(), 6) if not re.search(CORRECTION, name) else 0.2
    return t


def write_variant(family, name, changes, storage, layout):
    """Takes the first seed whose greedy choices are clear of rounding errors."""
    # Products of quantized matrices may round activations to sixteen bits.
    clear = 2e-3 if storage["kind"].startswith(("affine", "mxfp4")) else 3e-4
    for attempt in range(20):
        if write_seed(family, name, changes, storage, layout, f"#{attempt}" if attempt else "") > clear:
            return
    raise SystemExit(f"{family}/{name}: no seed without near-ties")


def write_seed(family, name, changes, storage, layout, salt):
    folder = os.path.join(text.ROOT, family, name)
    os.makedirs(folder, exist_ok=True)
    seed = fnv1a64(f"{family}/{name}{salt}") >> 12
    base = {**FAMILIES[family], **MOE_BASE, **FAMILIES[family], **changes}
    plain = {k: v for k, v in base.items() if v is not ABSENT}
    plain["torch_dtype"] = {"bf16": "bfloat16", "f16": "float16"}.get(storage["kind"], "float32")
    model = build(plain)
    tied = bool(model.config.tie_word_embeddings)
    parameters = {n: tuple(v.shape) for n, v in model.state_dict().items() if not (tied and n == "lm_head.weight")}
    tensors, state = [], {}
    for n, shape in parameters.items():
        parts, join = parts_of(family, n, shape, layout)
        described = [describe(part, s, storage, tied) for part, s in parts]
        tensors += described
        values = join([golden_weights.tensor(seed, t) for t in described])
        state[n] = torch.from_numpy(values.reshape(shape).copy())
    if tied:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    model.tie_weights()
    config = dict(plain)
    if storage["kind"] == "mxfp4":
        config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    if storage["kind"] == "mxfp4_mlx":
        config["quantization"] = {"group_size": 32, "bits": 4, "mode": "mxfp4"}
    if storage["kind"] == "affine":
        config["quantization"] = {"group_size": storage["group"], "bits": storage["bits"]}
        for t in tensors:
            o = (t.get("bits"), t.get("group"))
            module = t["name"].removesuffix(".weight")
            if t["kind"] == "affine" and o != (storage["bits"], storage["group"]):
                config["quantization"][module] = {"group_size": o[1], "bits": o[0]}

    rng = np.random.default_rng(seed)
    prompt = [int(x) for x in rng.integers(0, config["vocab_size"], text.PROMPT)]
    logits, greedy, least = text.run(model, prompt, text.PROMPT)
    positions = [0, 16, text.PROMPT - 1]
    golden = {
        "oracle": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, f32, CPU",
        "seed": seed,
        "prompt": prompt,
        "prefill": text.PROMPT,
        "positions": positions,
        "logits": ["".join(f"{int(u):08x}" for u in logits[p].view(np.uint32)) for p in positions],
        "greedy": greedy,
        "least_margin": round(least, 6),
        "max_logit": round(float(np.abs(logits).max()), 4),
    }
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    with open(os.path.join(folder, "golden.json"), "w") as f:
        lines = ",\n".join(json.dumps(t) for t in tensors)
        f.write(json.dumps(golden)[:-1] + ',\n"tensors": [\n' + lines + "\n]}\n")
    print(f"{family}/{name}: least margin {least:.4f} of {golden['max_logit']:.2f}, "
          f"{len(set(greedy))} different tokens", flush=True)
    return least


def main():
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    for family, name, changes, storage, layout in VARIANTS:
        if not wanted or family in wanted or f"{family}/{name}" in wanted:
            write_variant(family, name, changes, storage, layout)


if __name__ == "__main__":
    main()
