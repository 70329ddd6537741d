"""Writes tests/data/golden/<family>/<variant>/: config.json, and golden.json with the seed, the
tensors and what transformers computes from them in f32 on the CPU.

    pip install -r tools/reference/requirements.txt
    python tools/reference/golden_text.py [family[/variant] ...]

golden.json: "prompt" ids; "logits" of the prompt positions "positions", eight hexadecimal digits a
value (IEEE f32); "greedy" 64 ids that follow, with the least difference of the two best logits and
the largest logit magnitude seen. "prefill" is how much of the prompt went through one forward;
the rest, if any, was fed token by token (see docs/adr on dynamic rotary scaling).
"""

import json
import math
import os
import re
import sys
import tempfile

import numpy as np
import torch
import transformers
from golden_dense_variants import DENSE_FAMILIES, DENSE_VARIANTS
from golden_twins import TWINS
from golden_variants import ABSENT, BASE, FAMILIES, VARIANTS
from golden_weights import BLOCKS, FIELD_SCALES, fnv1a64, tensor
from transformers import AutoConfig, AutoModelForCausalLM

ROOT = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "data", "golden")
ALL_FAMILIES = {**FAMILIES, **DENSE_FAMILIES}
STEPS = 64
FIXED = {"act_fn.beta": 0.5, "act_fn.eps": -1e-6}  # buffers that are no weights
PROMPT = 40


def make_config(family, changes, storage, names):
    f = ALL_FAMILIES[family]
    c = {**f, **f.get("_base", BASE), **f, **changes}  # the order of the keys stays as it was
    c = {k: v for k, v in c.items() if v is not ABSENT and not k.startswith("_")}
    c["torch_dtype"] = {"bf16": "bfloat16", "f16": "float16"}.get(storage["kind"], "float32")
    if storage["kind"] == "affine":
        q = {"group_size": storage["group"], "bits": storage["bits"]}
        for name in names:
            o = override(storage, name)
            module = name.removesuffix(".weight")
            if o is None and override_key(storage, name):
                q[module] = False
            elif o is not None and o != (storage["bits"], storage["group"]):
                q[module] = {"group_size": o[1], "bits": o[0]}
        c["quantization"] = q
    return c


def override_key(storage, name):
    return next((k for k in storage["overrides"] if name.removesuffix(".weight").endswith(k)), None)


def override(storage, name):
    key = override_key(storage, name)
    return storage["overrides"][key] if key else None


def describe(name, shape, storage, tied, embedding="model.embed_tokens.weight", family=None):
    """The record of one tensor: how it is stored and the size of its random values."""
    t = {"name": name, "shape": list(shape), "kind": "f32", "offset": 0.0, "amplitude": 0.25}
    f = ALL_FAMILIES[family] if family else {}
    norm = re.search(r"(norm|norms\.\d+|ln_\w+)\.weight$", name) is not None
    fixed = next((v for k, v in FIXED.items() if name.endswith(k)), None)
    if fixed is not None:
        return {**t, "offset": fixed, "amplitude": 0.0}
    if name.endswith("layer_scalar"):
        t["offset"] = 1.0
    if len(shape) == 1 or norm:
        if norm:
            t["offset"] = f.get("_norm_offset", 1.0)
        if storage["kind"] in ("bf16", "f16"):
            t["kind"] = storage["kind"]
        return t
    gain = f.get("_embedding_gain", 0.5) if name == embedding and tied else 1.7
    width = 1 if name == embedding and not tied else shape[-1]
    t["amplitude"] = round(gain / math.sqrt(width), 6)
    kind = storage["kind"]
    if kind == "affine":
        o = override(storage, name)
        if o is None and override_key(storage, name):
            return t  # a dense matrix among quantized ones
        bits, group = o or (storage["bits"], storage["group"])
        return {**t, "kind": kind, "bits": bits, "group": group, "scale_type": storage["scale_type"]}
    t["kind"] = override(storage, name) or kind
    if t["kind"] in BLOCKS:
        t["fields"] = [t["amplitude"] * s for s in FIELD_SCALES[t["kind"]]]
    return t


def config_object(config):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({k: v for k, v in config.items() if not k.startswith("quantization")}, f)
        return AutoConfig.from_pretrained(folder)


def new_model(config):
    return AutoModelForCausalLM.from_config(config_object(config), attn_implementation="eager", dtype=torch.float32).eval()


def ends(model):
    """Names of the embedding and of the head."""
    names = {id(module): name + ".weight" for name, module in model.named_modules()}
    return names[id(model.get_input_embeddings())], names[id(model.get_output_embeddings())]


def turned(family, storage, name, shape):
    """Whether a matrix that the model keeps inputs first is stored outputs first, as MLX does."""
    return bool(ALL_FAMILIES[family].get("_conv1d")) and storage["kind"] == "affine" and ".h." in name and len(shape) == 2


def load_model(model, family, config, storage, tensors, seed, tied):
    state = {t["name"]: torch.from_numpy(tensor(seed, t).copy()) for t in tensors}
    state = {n: v.T.contiguous() if turned(family, storage, n, v.shape) else v for n, v in state.items()}
    twin = ALL_FAMILIES[family].get("_twin")
    if twin:
        state = TWINS[twin].state(config, state)
    embedding, head = ends(model)
    if tied:
        state[head] = state[embedding]
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    model.tie_weights()
    return model


@torch.no_grad()
def run(model, prompt, prefill):
    """Logits after every token of the prompt, then the greedy continuation with a cache."""
    cache = transformers.DynamicCache(config=model.config)
    ids = torch.tensor([prompt])
    rows = [model(ids[:, :prefill], past_key_values=cache, use_cache=True).logits[0]]
    for i in range(prefill, len(prompt)):
        rows.append(model(ids[:, i : i + 1], past_key_values=cache, use_cache=True).logits[0])
    logits = torch.cat(rows)
    greedy, least = [], math.inf
    last = logits[-1]
    for _ in range(STEPS):
        top = torch.topk(last, 2)
        greedy.append(int(top.indices[0]))
        least = min(least, float(top.values[0] - top.values[1]))
        out = model(torch.tensor([[greedy[-1]]]), past_key_values=cache, use_cache=True)
        last = out.logits[0, -1]
    return logits.numpy().astype(np.float32), greedy, least


def write_variant(family, name, changes, storage):
    """Takes the first seed whose greedy choices are clear of rounding errors."""
    for attempt in range(20):
        # Products of quantized matrices may round activations to sixteen bits.
        clear = 2e-3 if storage["kind"] == "affine" else 3e-4
        if write_seed(family, name, changes, storage, f"#{attempt}" if attempt else "") > clear or family in FAMILIES:
            return
    raise SystemExit(f"{family}/{name}: no seed without near-ties")


def write_seed(family, name, changes, storage, suffix):
    folder = os.path.join(ROOT, family, name)
    os.makedirs(folder, exist_ok=True)
    seed = fnv1a64(f"{family}/{name}{suffix}") >> 12  # below 2^53: an exact JSON number everywhere
    plain = make_config(family, changes, {"kind": "f32"}, [])
    twin = TWINS.get(ALL_FAMILIES[family].get("_twin"))
    model = new_model(twin.config(plain) if twin else plain)
    embedding, head = ends(model)
    tied = bool(plain["tie_word_embeddings"])
    keep = {n: tuple(v.shape) for n, v in model.state_dict().items() if not (tied and n == head)}
    if twin:
        keep = twin.shapes(plain, keep)
        embedding = next(n for n in keep if "embed" in n)
    keep = {n: s[::-1] if turned(family, storage, n, s) else s for n, s in keep.items()}
    tensors = [describe(n, s, storage, tied, embedding, family) for n, s in keep.items()]
    config = make_config(family, changes, storage, [n for n, s in keep.items() if len(s) == 2])
    load_model(model, family, config, storage, tensors, seed, tied)

    rng = np.random.default_rng(seed)
    prompt = [int(x) for x in rng.integers(0, config["vocab_size"], PROMPT)]
    dynamic = "dynamic" in json.dumps(config)
    prefill = min(PROMPT, config["max_position_embeddings"]) if dynamic else PROMPT
    logits, greedy, least = run(model, prompt, prefill)
    extra = []
    if name == "tied_but_head_present":
        extra = [describe("lm_head.weight", (config["vocab_size"], config["hidden_size"]), storage, False)]
    positions = [0, 16, PROMPT - 1]
    golden = {
        "oracle": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, f32, CPU",
        "seed": seed,
        "prompt": prompt,
        "prefill": prefill,
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
        text = json.dumps(golden)[:-1] + ',\n"tensors": [\n'
        f.write(text + ",\n".join(json.dumps(t) for t in tensors + extra) + "\n]}\n")
    print(f"{family}/{name}: least margin {least:.4f} of {golden['max_logit']:.2f}, "
          f"{len(set(greedy))} different tokens", flush=True)
    return least / golden["max_logit"]


def main():
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    for family, name, changes, storage in VARIANTS + DENSE_VARIANTS:
        if not wanted or family in wanted or f"{family}/{name}" in wanted:
            write_variant(family, name, changes, storage)


if __name__ == "__main__":
    main()
