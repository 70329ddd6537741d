"""Writes tests/data/golden/<family>/<variant>/ for recurrent and hybrid families, in the form that
golden_text.py describes: config.json, and golden.json with what the reference computes in f32 on the
CPU from weights that follow from a seed.

    pip install -r tools/reference/requirements.txt
    python tools/reference/golden_recurrent.py [family[/variant] ...]

transformers reads the whole sequence anew for every token: that is the form that its authors test, and
it has no cache that could differ from it. mlx-lm, the reference where transformers has no such family,
goes on from its cache. Seeds whose greedy
tokens are decided by less than MARGIN of the largest logit, or are too much alike, are passed over.
"""

import json
import math
import os
import sys
import tempfile

import numpy as np
import torch
import transformers
from golden_recurrent_variants import ABSENT, FAMILIES, VARIANTS
from golden_weights import fnv1a64, tensor

ROOT = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "data", "golden")
STEPS = 64
PROMPT = 40
MARGIN = 1.5e-3  # of the largest logit

# (suffix of the name, offset, amplitude) of tensors that are not projections.
RULES = [
    ("A_log", 0.4, 0.8),
    ("dt_bias", -1.0, 0.7),
    ("dt_proj.bias", -1.0, 0.7),
    (".D", 1.0, 0.25),
    ("recurrent_param", -3.0, 1.0),
    ("e_score_correction_bias", 0.0, 0.3),
    ("shared_expert_gate.weight", 0.0, 0.4),
]


def make_config(family, changes):
    c = {**FAMILIES[family]["config"], **changes}
    return {k: v for k, v in c.items() if v is not ABSENT}


def is_norm(family, name, shape):
    ruled = any(name.endswith(rule[0]) for rule in FAMILIES[family].get("rules", []))
    return len(shape) == 1 and "norm" in name and name.endswith("weight") and not ruled


def describe(family, name, shape, storage, tied):
    """The record of one tensor: how it is stored and the size of its random values."""
    t = {"name": name, "shape": list(shape), "kind": "f32", "offset": 0.0, "amplitude": 0.25}
    for suffix, offset, amplitude in FAMILIES[family].get("rules", []) + RULES:
        if name.endswith(suffix):
            return {**t, "offset": offset, "amplitude": amplitude}
    if len(shape) == 1:
        if is_norm(family, name, shape):
            adds_one = storage.get("mlx") and FAMILIES[family].get("mlx_adds_one")
            t["offset"] = 1.0 if adds_one else FAMILIES[family].get("gain", 1.0)
        return t
    embedding = "embed" in name
    fan_in = shape[1] if name.endswith("gate_weight") else shape[-1]
    if "conv" in name:
        fan_in = max(shape[1:])
    width = 1 if embedding and not tied else fan_in
    t["amplitude"] = round((0.5 if embedding and tied else storage.get("gain", 1.7)) / math.sqrt(width), 6)
    if storage["kind"] in ("bf16", "f16"):
        t["kind"] = storage["kind"]
    if storage["kind"] == "affine" and len(shape) == 2 and name.endswith(".weight"):
        if shape[1] % storage["group"] == 0:
            t.update(kind="affine", bits=storage["bits"], group=storage["group"], scale_type="f16")
    return t


def stored(family, t, storage):
    """The record as the file has it: MLX keeps the taps of a convolution before its one input, and
    "flat" files have their small parameters as vectors."""
    shape = t["shape"]
    if storage.get("mlx") and len(shape) == 3 and shape[1] == 1 and "conv" in t["name"]:
        return {**t, "shape": [shape[0], shape[2], 1]}
    if storage.get("flat") and any(t["name"].endswith(rule[0]) for rule in FAMILIES[family].get("rules", [])):
        return {**t, "shape": [math.prod(shape)]}
    return t


class Transformers:
    name = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"

    def __init__(self, config):
        from transformers import AutoConfig, AutoModelForCausalLM

        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "w") as f:
                json.dump(config, f)
            c = AutoConfig.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_config(c, attn_implementation="eager", dtype=torch.float32).eval()
        self.tied = bool(c.tie_word_embeddings)

    def shapes(self):
        return {n: tuple(v.shape) for n, v in self.model.state_dict().items()
                if not (self.tied and n == "lm_head.weight")}

    def load(self, values):
        missing, unexpected = self.model.load_state_dict(
            {n: torch.from_numpy(v.copy()) for n, v in values.items()}, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
        self.model.tie_weights()

    def begin(self, prompt):
        self.ids = list(prompt)
        return self.logits(self.ids)

    def next(self, token):
        self.ids.append(token)
        return self.logits(self.ids)[-1]

    @torch.no_grad()
    def logits(self, ids):
        return self.model(torch.tensor([ids]), use_cache=False).logits[0].numpy().astype(np.float32)


class MlxLm:
    def __init__(self, config):
        import importlib

        import mlx.core as mx
        import mlx_lm
        from mlx.utils import tree_flatten

        mx.set_default_device(mx.cpu)
        self.mx = mx
        MlxLm.name = f"mlx-lm {mlx_lm.__version__}, mlx {mx.__version__}"
        module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
        self.model = module.Model(module.ModelArgs.from_dict(config))
        self.tied = bool(config["tie_word_embeddings"])
        self.parameters = dict(tree_flatten(self.model.parameters()))

    def shapes(self):
        return {n: tuple(v.shape) for n, v in self.parameters.items()}

    def load(self, values):
        weights = [(n, self.mx.array(v.astype(np.float32))) for n, v in values.items()]
        self.model.load_weights(weights, strict=True)

    def begin(self, prompt):
        self.cache = self.model.make_cache()
        return self.logits(prompt)

    def next(self, token):
        return self.logits([token])[-1]

    def logits(self, ids):
        return np.array(self.model(self.mx.array([ids]), self.cache))[0].astype(np.float32)


def run(oracle, prompt):
    """Logits after every token of the prompt, then the greedy continuation."""
    logits = oracle.begin(prompt)
    ids, least, last = [], math.inf, logits[-1]
    allowed = MARGIN * float(np.abs(logits).max())
    for _ in range(STEPS):
        best = np.argsort(-last, kind="stable")[:2]
        least = min(least, float(last[best[0]] - last[best[1]]))
        if least < allowed:
            return None
        ids.append(int(best[0]))
        last = oracle.next(ids[-1])
    return (logits, ids, least) if len(set(ids)) >= 8 else None


def attempt(family, config, oracle_config, storage, seed):
    kind = MlxLm if FAMILIES[family].get("oracle") == "mlx-lm" else Transformers
    oracle = kind(oracle_config)
    prepare = FAMILIES[family].get("names", lambda shapes, config: {n: [(n, s)] for n, s in shapes.items()})
    tensors, values = [], {}
    for name, parts in prepare(oracle.shapes(), config).items():
        # A parameter of the oracle is one tensor of the file, or several end to end.
        pieces = []
        for part, shape in parts:
            t = describe(family, part, shape, storage, oracle.tied)
            value = tensor(seed, t).reshape(shape)
            if storage.get("mlx") and FAMILIES[family].get("mlx_adds_one") and is_norm(family, part, shape):
                value = value - np.float32(1)  # MLX files hold the gain, the reference's parameter is gain - 1
            pieces.append(value)
            tensors.append(stored(family, t, storage))
        shape = oracle.shapes()[name]
        values[name] = np.concatenate([p.reshape(-1) for p in pieces]).reshape(shape)
    oracle.load(values)
    rng = np.random.default_rng(seed)
    prompt = [int(x) for x in rng.integers(0, config["vocab_size"], PROMPT)]
    return kind.name, tensors, prompt, run(oracle, prompt)


def write_variant(family, name, changes, storage):
    config = make_config(family, changes)
    oracle_config = {**config, **storage.get("oracle", {})}
    oracle_config = {k: v for k, v in oracle_config.items() if v is not ABSENT}
    for salt in range(40):
        seed = fnv1a64(f"{family}/{name}" + (f"#{salt}" if salt else "")) >> 12
        oracle, tensors, prompt, result = attempt(family, config, oracle_config, storage, seed)
        if result is not None:
            break
    else:
        raise SystemExit(f"{family}/{name}: every seed leads to near ties")
    logits, greedy, least = result
    if storage["kind"] == "affine":
        config["quantization"] = {"group_size": storage["group"], "bits": storage["bits"]}
    positions = [0, 16, PROMPT - 1]
    golden = {
        "oracle": f"{oracle}, f32, CPU",
        "seed": seed,
        "prompt": prompt,
        "prefill": PROMPT,
        "positions": positions,
        "logits": ["".join(f"{int(u):08x}" for u in logits[p].view(np.uint32)) for p in positions],
        "greedy": greedy,
        "least_margin": round(least, 6),
        "max_logit": round(float(np.abs(logits).max()), 4),
    }
    folder = os.path.join(ROOT, family, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    with open(os.path.join(folder, "golden.json"), "w") as f:
        f.write(json.dumps(golden)[:-1] + ',\n"tensors": [\n' + ",\n".join(json.dumps(t) for t in tensors) + "\n]}\n")
    print(f"{family}/{name}: seed {salt}, least margin {least:.4f} of {golden['max_logit']:.2f}, "
          f"{len(set(greedy))} different tokens", flush=True)


def main():
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    for family, name, changes, storage in VARIANTS:
        if not wanted or family in wanted or f"{family}/{name}" in wanted:
            write_variant(family, name, changes, storage)


if __name__ == "__main__":
    main()
