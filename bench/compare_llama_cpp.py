#!/usr/bin/env python3
"""Compares mlxcel with llama.cpp (through llama-cpp-python) on one GGUF file, in alternating order, on this machine.

usage: compare_llama_cpp.py MODEL.gguf [--mlxcel build/release/bin/mlxcel] [--rounds 5] [--prompt-tokens 512] [--tokens 128]
                            [--threads N] [--markdown]

Needs `pip install llama-cpp-python` (any virtual environment). Both sides run in a fresh process for each round, after one
unmeasured round each. Prefill is the time of the whole prompt up to the first token; decode is the time of the tokens after it.
Both are greedy and generate the same number of tokens. The table shows medians and the ratio of medians.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

WORDS = "the river carried small boats past the old mill while children counted them from the bridge and the miller wrote letters "

# Runs in a process of its own, so that neither side sees the other's memory or threads.
LLAMA_CPP = r"""
import json, sys, time
import llama_cpp
path, prompt, tokens, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
llm = llama_cpp.Llama(path, n_ctx=0, n_batch=2048, n_ubatch=512, n_threads=threads, n_threads_batch=threads, verbose=False, logits_all=False)
ids = llm.tokenize(prompt.encode(), add_bos=True, special=False)
llm.eval(ids[:1]); llm.reset()
start = time.perf_counter()
llm.eval(ids)
first = llm.sample(temp=0.0)
prefill = time.perf_counter() - start
start = time.perf_counter()
token = first
for _ in range(tokens - 1):
    llm.eval([token])
    token = llm.sample(temp=0.0)
decode = time.perf_counter() - start
info = llama_cpp.llama_print_system_info().decode()
print(json.dumps({"version": llama_cpp.__version__, "info": info, "prompt": len(ids), "prefill": len(ids) / prefill, "decode": (tokens - 1) / decode}))
"""


def run_llama_cpp(args, prompt):
    command = [sys.executable, "-c", LLAMA_CPP, args.model, prompt, str(args.tokens), str(args.threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"llama-cpp-python failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def run_mlxcel(args, prompt):
    command = [args.mlxcel, "generate", "-m", args.model, "-p", prompt, "-n", str(args.tokens), "--temp", "0",
               "--no-chat-template", "--profile"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env=os.environ | {"MLXCEL_THREADS": str(args.threads)})
    text = done.stdout + done.stderr
    numbers = {key: re.search(pattern, text) for key, pattern in {
        "prompt": r"Prompt tokens: (\d+)", "generated": r"Generated tokens: (\d+)",
        "prefill": r"Prefill: .*\(([\d.]+) tok/s\)", "decode": r"Decode: .*\(([\d.]+) tok/s\)"}.items()}
    if done.returncode != 0 or not all(numbers.values()):
        sys.exit(f"mlxcel failed ({done.returncode}):\n{text}")
    result = {key: float(match[1]) for key, match in numbers.items()}
    if result["generated"] != args.tokens:
        # The other side must do the same work; the prompt is the same in each round, so one round's length holds for all.
        print(f"note: the text ended after {result['generated']:.0f} tokens; both sides generate that many")
        args.tokens = int(result["generated"])
    return result


def machine():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{names[0] if names else os.uname().machine}, {len(os.sched_getaffinity(0))} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--mlxcel", default="build/release/bin/mlxcel")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, default=512, help="about; one word of the prompt is about one token")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    words = (WORDS * (args.prompt_tokens // len(WORDS.split()) + 1)).split()[: args.prompt_tokens]
    prompt = " ".join(words)

    ours, theirs = [], []
    for number in range(args.rounds + 1):
        order = [(run_mlxcel, ours), (run_llama_cpp, theirs)]
        for side, results in order if number % 2 == 0 else reversed(order):
            result = side(args, prompt)
            if number > 0:  # the first round warms the page cache
                results.append(result)
    if int(ours[0]["prompt"]) != theirs[0]["prompt"]:
        print(f"note: {ours[0]['prompt']:.0f} prompt tokens here, {theirs[0]['prompt']} there")

    version = subprocess.run([args.mlxcel, "--version"], capture_output=True, text=True).stdout.splitlines()
    print(f"{machine()}, {args.threads} threads; {os.path.basename(args.model)}")
    print(f"{version[0] if version else 'mlxcel'}; llama-cpp-python {theirs[0]['version']}; {args.rounds} rounds in alternating order")
    print(f"llama.cpp was built with: {theirs[0]['info'].strip()}")
    print()
    print("| | mlxcel tok/s (min-max) | llama.cpp tok/s (min-max) | ratio of medians |")
    print("|---|---|---|---|")
    for key, label in (("prefill", f"prefill, {theirs[0]['prompt']} tokens"), ("decode", f"decode, {args.tokens} tokens")):
        a, b = [r[key] for r in ours], [r[key] for r in theirs]
        cells = [f"{statistics.median(x):.1f} ({min(x):.1f}-{max(x):.1f})" for x in (a, b)]
        print(f"| {label} | {cells[0]} | {cells[1]} | {statistics.median(a) / statistics.median(b):.2f} |")


if __name__ == "__main__":
    main()
